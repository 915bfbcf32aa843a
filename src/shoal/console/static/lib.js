// What every module needs of the libraries.
import { Component, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { Component, render };
export const html = htm.bind(h);
