// Requests to the console's own server. `session` is who is logged in; every unsafe request shows its CSRF value.
export const session = { principal: "", role: "", csrf: "", domain: "", version: "", pages: [] };
const RANKS = { viewer: 0, operator: 1, admin: 2 };

export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

let onLoggedOut = () => {};
export const whenLoggedOut = (call) => { onLoggedOut = call; };
export const may = (role) => (RANKS[session.role] ?? -1) >= RANKS[role];

async function call(method, path, body) {
  const headers = {};
  if (method !== "GET") {
    headers["Content-Type"] = "application/json";
    headers["X-Shoal-CSRF"] = session.csrf;
  }
  let answer;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, "The console does not answer.");
  }
  const text = await answer.text();
  const told = text ? JSON.parse(text) : {};
  if (answer.ok) return told;
  if (answer.status === 401 && path !== "session") onLoggedOut();
  const detail = Array.isArray(told.detail)
    ? told.detail.map((each) => `${each.loc?.at(-1)}: ${each.msg}`).join("; ")
    : told.detail;
  throw new ApiError(answer.status, detail || `The console answered ${answer.status}.`);
}

export const get = (path, query = {}) => {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const text = new URLSearchParams(given).toString();
  return call("GET", text ? `${path}?${text}` : path);
};
export const post = (path, body) => call("POST", path, body);

export async function resume() {
  Object.assign(session, await call("GET", "session"));
}
export async function logIn(token) {
  Object.assign(session, await call("POST", "session", { token }));
}
export async function logOut() {
  await call("DELETE", "session");
  session.principal = session.role = session.csrf = "";
}
