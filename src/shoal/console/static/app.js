// The frame: logging in, the menu, figures of the whole domain, and the page that the address names.
import { html, render, useEffect, useState } from "./lib.js";
import { get, logIn, logOut, may, resume, session, whenLoggedOut } from "./api.js";
import * as live from "./live.js";
import * as format from "./format.js";
import { Dialog, Toasts, choose, chosen, go, place, toast } from "./parts.js";

const PAGES = [
  { name: "map", title: "Map", load: () => import("./pages/map.js"), key: "m" },
  { name: "topics", title: "Topics", load: () => import("./pages/topics.js"), key: "t" },
  { name: "queues", title: "Queues", load: () => import("./pages/queues.js"), key: "q" },
  { name: "subscriptions", title: "Subscriptions", load: () => import("./pages/subscriptions.js"), key: "s" },
  { name: "stores", title: "Stores", load: () => import("./pages/stores.js"), key: "o" },
  { name: "history", title: "History", load: () => import("./pages/history.js"), key: "h" },
  { name: "daemons", title: "Daemons", load: () => import("./pages/daemons.js"), key: "d" },
  { name: "alarms", title: "Alarms", load: () => import("./pages/alarms.js"), key: "a" },
  { name: "tokens", title: "Tokens", load: () => import("./pages/tokens.js"), role: "admin", key: "k" },
  { name: "audit", title: "Audit", load: () => import("./pages/audit.js"), role: "admin", key: "u" },
];
const pages = () => [
  ...PAGES.filter((each) => !each.role || may(each.role)),
  ...session.pages.map((each) => ({ name: `ext-${each.name}`, title: each.title, load: () => import(each.module), extra: true })),
];

function Login({ onDone, why }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(why);
  const [busy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await logIn(token.trim());
      onDone();
    } catch (caught) {
      setError(caught.message);
      setBusy(false);
    }
  };
  return html`<main class="login"><form class="panel" onSubmit=${send}>
    <div class="brand"><img src="/static/icon.svg" alt="" /><h1>Shoal console</h1></div>
    <label class="field">Token
      <input type="password" name="token" autocomplete="current-password" required value=${token} autofocus
        placeholder="shoal-token-1:…" onInput=${(event) => setToken(event.target.value)} /></label>
    ${error && html`<p class="error" role="alert">${error}</p>`}
    <button class="main" disabled=${busy || !token}>Log in</button>
    <p class="dim">An administrator makes tokens with <code>shoal token new</code>, or on the page Tokens. Roles are viewer, operator and admin.</p>
  </form></main>`;
}

function Figures() {
  live.useLive();
  const now = live.rows("overview").get("domain");
  if (!now) return null;
  const figure = (title, value, kind = "") => html`<div class=${kind}><dt>${title}</dt><dd>${value}</dd></div>`;
  return html`<dl class="figures">
    ${figure("Nodes", now.down ? `${now.nodes - now.down} up, ${now.down} down` : format.int(now.nodes), now.down ? "bad" : "")}
    ${figure("Messages/s", format.perSecond(now.sent_s))}
    ${figure("Sent", format.bits(now.out_bps), "extra")}
    ${figure("Stored/s", format.perSecond(now.stored_s), "extra")}
    ${figure("In queues", format.short(now.backlog))}
    ${figure("Open alarms", format.int(now.alarms), now.worst >= 40 ? "bad" : now.alarms ? "warn" : "")}
  </dl>`;
}

function Lost() {
  live.useLive();
  const faults = Object.entries(live.rows("overview").get("domain")?.faults ?? {});
  return html`${live.link.state === "lost" && html`<div class="lost" role="alert">The console does not answer. What you see is from
      ${` ${format.clock(live.link.at / 1000)}`}; connecting again.</div>`}
    ${faults.map(([what, why]) => html`<div class="lost" key=${what}>${what}: ${why}</div>`)}`;
}

function AlarmBadge() {
  live.useLive();
  const now = live.rows("overview").get("domain");
  return now?.alarms ? html`<span class="badge ${now.worst >= 40 ? "" : "warn"}">${now.alarms}</span>` : null;
}

function toggleTheme() {
  const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = dark === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("shoal-theme", next);
  dispatchEvent(new Event("hashchange"));
}

const Help = ({ onClose }) => html`<${Dialog} title="Keys" onClose=${onClose}><div class="inner">
  <h2>Keys</h2>
  <table><tbody>${[["/", "go to the filter"], ["↑ ↓ Enter", "move in a table, open a row"], ["Esc", "close the side panel"],
    ["g then a letter", PAGES.map((each) => `${each.key} ${each.title}`).join(", ")], ["?", "this list"]]
    .map(([key, what]) => html`<tr key=${key}><td class="mono">${key}</td><td class="wrap">${what}</td></tr>`)}</tbody></table>
  <div class="end"><button autofocus onClick=${onClose}>Close</button></div></div></${Dialog}>`;

function Frame({ onOut }) {
  const [at, setAt] = useState(place());
  const [page, setPage] = useState(null);
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const moved = () => setAt(place());
    let before = "";
    const typed = (event) => {
      if (event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "Escape" && chosen()) return choose(null);
      if (/INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
      if (event.key === "/") {
        event.preventDefault();
        document.querySelector("[data-filter]")?.focus();
      } else if (event.key === "?") setHelp(true);
      else if (before === "g") {
        const found = pages().find((each) => each.key === event.key);
        if (found) go(found.name);
      }
      before = event.key;
    };
    addEventListener("hashchange", moved);
    addEventListener("keydown", typed);
    return () => { removeEventListener("hashchange", moved); removeEventListener("keydown", typed); };
  }, []);
  const here = pages().find((each) => each.name === at.page) ?? pages()[0];
  useEffect(() => {
    let stale = false;
    document.title = `${here.title} · ${session.domain} · Shoal`;
    here.load().then((module) => !stale && setPage({ name: here.name, View: module.default }))
      .catch((error) => toast(`The page cannot be loaded: ${error.message}`, "bad"));
    return () => { stale = true; };
  }, [here.name]);
  const out = async () => { await logOut().catch(() => {}); onOut(""); };
  useEffect(() => {
    // On a narrow screen the menu is one line that scrolls.
    document.querySelector(".menu [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [here.name]);
  const link = (each) => html`<a key=${each.name} href="#/${each.name}" aria-current=${each.name === here.name ? "page" : undefined}>
    ${each.title}${each.name === "alarms" && html`<${AlarmBadge} />`}</a>`;
  return html`<div class="frame">
    <header class="top">
      <div class="brand"><img src="/static/icon.svg" alt="" /><span>Shoal <span class="domain">${session.domain}</span></span></div>
      <${Figures} />
      <span class="grow"></span>
      <div class="who"><div>${session.principal}</div><div class="dim">${session.role}</div></div>
      <button class="icon" aria-label="Keys" onClick=${() => setHelp(true)}>?</button>
      <button class="icon" aria-label="Light or dark" onClick=${toggleTheme}>◐</button>
      <button onClick=${out}>Log out</button>
    </header>
    <nav class="menu" aria-label="Pages">
      ${pages().filter((each) => !each.role && !each.extra).map(link)}
      ${may("admin") && html`<div class="group">Administration</div>`}${pages().filter((each) => each.role).map(link)}
      ${pages().some((each) => each.extra) && html`<div class="group">More</div>`}${pages().filter((each) => each.extra).map(link)}
    </nav>
    <main class="page"><${Lost} />${page?.name === here.name && html`<${page.View} query=${at.query} />`}</main>
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
    <${Toasts} />
  </div>`;
}

function App() {
  const [state, setState] = useState({ is: "asking", why: "" });
  const enter = async () => {
    live.start(await get("series").catch(() => null));
    setState({ is: "in", why: "" });
  };
  const leave = (why) => { live.stop(); setState({ is: "out", why }); };
  useEffect(() => {
    whenLoggedOut(() => leave("Your session is over. Log in again."));
    const given = /^#token=(.+)$/.exec(location.hash)?.[1];
    if (given) history.replaceState(null, "", "/#/map");
    (given ? logIn(decodeURIComponent(given)) : resume()).then(enter, (error) => leave(given ? error.message : ""));
  }, []);
  if (state.is === "asking") return null;
  return state.is === "in" ? html`<${Frame} onOut=${leave} />` : html`<${Login} onDone=${enter} why=${state.why} />`;
}

render(html`<${App} />`, document.getElementById("app"));
