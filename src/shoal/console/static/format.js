// Numbers and times as people read them. What is not known is a dash.
const NONE = "–";
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const int = (value) => (value == null ? NONE : plain.format(value));
export function short(value) {
  if (value == null) return NONE;
  const size = Math.abs(value);
  for (const [unit, at] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
    const step = unit === "k" ? 1e3 : at;
    if (size >= at) return `${(value / step).toFixed(size / step >= 100 ? 0 : 1)} ${unit}`;
  }
  return size >= 100 || Number.isInteger(value) ? plain.format(value) : value.toFixed(size >= 10 ? 1 : 2);
}
export const perSecond = (value) => (value == null ? NONE : value === 0 ? "0" : short(value));
export const signed = (value) => (value == null ? NONE : value > 0 ? `+${short(value)}` : value < 0 ? `−${short(-value)}` : "0");
export function bytes(value) {
  if (value == null) return NONE;
  for (const [unit, at] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= at) return `${(value / at).toFixed(value / at >= 100 ? 0 : 1)} ${unit}`;
  }
  return `${value} B`;
}
export function bits(value) {
  if (value == null) return NONE;
  for (const [unit, at] of [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]]) {
    if (value >= at) return `${(value / at).toFixed(value / at >= 100 ? 0 : 1)} ${unit}`;
  }
  return `${Math.round(value)} bit/s`;
}
export const percent = (value) => (value == null ? NONE : `${(100 * value).toFixed(value && value < 0.1 ? 1 : 0)} %`);
export const ms = (value) => (value == null ? NONE : value < 10 ? `${value.toFixed(2)} ms` : `${short(value)} ms`);
export function span(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return NONE;
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}
export const ago = (at) => (at ? span(Date.now() / 1000 - at) : NONE);
const two = (value) => String(value).padStart(2, "0");
export function clock(at, withMs = false) {
  if (at == null) return NONE;
  const when = new Date(at * 1000);
  const time = `${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}`;
  return withMs ? `${time}.${String(when.getMilliseconds()).padStart(3, "0")}` : time;
}
export function moment(at, withMs = false) {
  if (at == null) return NONE;
  const when = new Date(at * 1000);
  const day = `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
  return `${day} ${clock(at, withMs)}`;
}
