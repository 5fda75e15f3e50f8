import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium, flags, type Scheme } from '../report/chromium.ts';

type Params = Readonly<Record<string, unknown>>;
interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Params;
  readonly result?: Params;
  readonly error?: { readonly message: string };
}

/** How long a browser may take for one thing. */
const limitMs = 30_000;

/** One tab of a headless browser, led by the Chrome DevTools Protocol: it has the width of a telephone, too. */
export interface Tab {
  /** Opens a page and waits until it is drawn. @param isReady for this page, instead of that of the tab */
  open(url: string, width: number, scheme: Scheme, isReady?: string): Promise<void>;
  /** Runs JavaScript in the page. @returns what it, or its promise, ends with */
  run(script: string): Promise<unknown>;
  /** Presses a key, with its text if it types one: `ArrowDown`, `Tab`, `+`. */
  press(key: string): Promise<void>;
  /** Puts fingers on the window, moves them, or with none lifts them. @param points in pixels of the window */
  touch(type: 'touchStart' | 'touchMove' | 'touchEnd', ...points: readonly { x: number; y: number }[]): Promise<void>;
  /** What the window shows, as a PNG. */
  screenshot(): Promise<Buffer>;
  /** The page on paper, as a PDF. */
  paper(): Promise<Buffer>;
  /** What the console said, and what could not be loaded, since the page was opened. */
  complaints(): readonly string[];
  /** What was asked of any server since the page was opened. */
  requests(): readonly string[];
  close(): Promise<void>;
}

const complaining = ['Runtime.consoleAPICalled', 'Runtime.exceptionThrown', 'Log.entryAdded', 'Network.loadingFailed'];

/** Starts a browser with one tab. @param isReady JavaScript that is true when the page's script has taken it over */
export async function openTab(isReady = `document.querySelector('#app')?.__vue_app__`): Promise<Tab> {
  const home = mkdtempSync(join(tmpdir(), 'sluice-site-'));
  const args = [...flags, `--user-data-dir=${home}/profile`, '--remote-debugging-port=0', 'about:blank'];
  const child = spawn(chromium ?? 'chromium', args, { stdio: ['ignore', 'ignore', 'pipe'], env: { HOME: home } });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const socket = await connect(await addressOf(createInterface(child.stderr)));
  const heard: { method: string; params: Params }[] = [];
  const ask = askThrough(socket, (method, params) => heard.push({ method, params }));
  const told = (...methods: readonly string[]): readonly Params[] =>
    heard.filter(({ method }) => methods.includes(method)).map(({ params }) => params);
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await ask(`${domain}.enable`);
  const run = async (expression: string): Promise<unknown> => {
    const { result, exceptionDetails } = await ask('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value?: unknown }).value;
  };
  return {
    async open(url, width, scheme, isReadyHere = isReady) {
      await ask('Emulation.setDeviceMetricsOverride', {
        width,
        height: 900,
        deviceScaleFactor: 1,
        mobile: width < 500,
      });
      await ask('Emulation.setEmulatedMedia', {
        features: [
          { name: 'prefers-color-scheme', value: scheme },
          { name: 'prefers-reduced-motion', value: 'reduce' },
        ],
      });
      heard.length = 0;
      await ask('Page.navigate', { url });
      await run(settled(isReadyHere));
    },
    run,
    async press(key) {
      const text = key.length === 1 ? { text: key } : key === 'Enter' ? { text: '\r' } : {};
      const virtual = keyCodes[key] ?? key.toUpperCase().charCodeAt(0);
      await ask('Input.dispatchKeyEvent', { type: 'keyDown', key, windowsVirtualKeyCode: virtual, ...text });
      await ask('Input.dispatchKeyEvent', { type: 'keyUp', key, windowsVirtualKeyCode: virtual });
    },
    async touch(type, ...points) {
      await ask('Input.dispatchTouchEvent', { type, touchPoints: points.map((point, id) => ({ ...point, id })) });
    },
    paper: async () => Buffer.from(String((await ask('Page.printToPDF', { printBackground: true }))['data']), 'base64'),
    screenshot: async () => Buffer.from(String((await ask('Page.captureScreenshot'))['data']), 'base64'),
    complaints: () => told(...complaining).map((params) => JSON.stringify(params)),
    requests: () =>
      told('Network.requestWillBeSent')
        .map(({ request }) => (request as { url: string }).url)
        .filter((url) => !url.startsWith('data:')),
    async close() {
      socket.close();
      child.kill('SIGKILL');
      await gone;
      rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}

/** Codes of keys that type nothing (UI Events, Windows virtual key codes). */
const keyCodes: Readonly<Record<string, number>> = {
  Tab: 9,
  Enter: 13,
  End: 35,
  Home: 36,
  PageUp: 33,
  PageDown: 34,
  ArrowLeft: 37,
  ArrowUp: 38,
  ArrowRight: 39,
  ArrowDown: 40,
};

/** Loaded, run and drawn. */
const settled = (isReady: string): string => `new Promise((resolve, reject) => {
  const endsMs = Date.now() + 20000;
  const look = () => {
    if (document.readyState === 'complete' && (${isReady}))
      return requestAnimationFrame(() => requestAnimationFrame(resolve));
    if (Date.now() > endsMs) return reject(new Error('the page is not ready'));
    setTimeout(look, 20);
  };
  look();
})`;

/** The tab's own address, from what the browser says when it starts. */
async function addressOf(lines: AsyncIterable<string>): Promise<string> {
  for await (const line of lines) {
    const [, host] = /^DevTools listening on ws:\/\/([^/]+)/.exec(line) ?? [];
    if (host === undefined) continue;
    const tabs = (await (await fetch(`http://${host}/json/list`)).json()) as {
      type: string;
      webSocketDebuggerUrl: string;
    }[];
    const tab = tabs.find(({ type }) => type === 'page');
    if (tab) return tab.webSocketDebuggerUrl;
  }
  throw new Error('the browser ended before it had a tab');
}

async function connect(address: string): Promise<WebSocket> {
  const socket = new WebSocket(address);
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve());
    socket.addEventListener('error', () => reject(new Error('the browser does not take a connection')));
  });
  return socket;
}

/** A way to ask, with the answer; what the browser says by itself goes to `hear`. */
function askThrough(
  socket: WebSocket,
  hear: (method: string, params: Params) => void,
): (method: string, params?: Params) => Promise<Params> {
  const waiting = new Map<number, (message: Message) => void>();
  let last = 0;
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data)) as Message;
    if (message.id !== undefined) waiting.get(message.id)?.(message);
    else if (message.method !== undefined) hear(message.method, message.params ?? {});
  });
  return async (method, params = {}) => {
    const id = ++last;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const timer = setTimeout(() => reject(new Error(`the browser does not answer ${method}`)), limitMs);
    waiting.set(id, resolve);
    socket.send(JSON.stringify({ id, method, params }));
    const { result = {}, error } = await promise.finally(() => {
      clearTimeout(timer);
      waiting.delete(id);
    });
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };
}
