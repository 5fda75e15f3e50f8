import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** The path of a Chromium; without one the tests of the page are skipped, and say so. */
export const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
);

/** No window, no network of its own, nothing kept. The page is a file, and its own policy forbids it the rest. */
export const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--enable-logging=stderr',
];
const timeoutMs = 60_000;

/** The preferred colour scheme of the user; the numbers are Chromium's (`blink::mojom::PreferredColorScheme`). */
export const schemes = { dark: 0, light: 1 } as const;
export type Scheme = keyof typeof schemes;

export interface Visit {
  /** The document after its script has run. */
  readonly dom: string;
  /** The page's console: refused scripts, errors. */
  readonly console: readonly string[];
}

/**
 * Opens a page in a browser without a network.
 * @param steps JavaScript to run when the page is ready; a policy of its own permits it besides the page's own script
 * @param width of the window; Chromium's minimum is 500
 */
export async function visit(page: string, steps = '', width = 1280, scheme: Scheme = 'light'): Promise<Visit> {
  return open(steps === '' ? page : withSteps(page, steps), width, scheme, '--dump-dom', (stdout, stderr) => ({
    dom: stdout,
    console: stderr.split('\n').filter((line) => line.includes(':CONSOLE')),
  }));
}

/** A screenshot of a page, as a PNG. */
export async function screenshot(page: string, scheme: Scheme, width = 1280): Promise<Buffer> {
  return open(page, width, scheme, '--screenshot=page.png', (_stdout, _stderr, dir) =>
    readFileSync(join(dir, 'page.png')),
  );
}

async function open<T>(
  page: string,
  width: number,
  scheme: Scheme,
  action: string,
  take: (stdout: string, stderr: string, dir: string) => T,
): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-page-'));
  try {
    const file = join(dir, 'page.html');
    writeFileSync(file, page);
    const { stdout, stderr } = await execa(
      chromium ?? 'chromium',
      [
        ...flags,
        `--user-data-dir=${dir}/profile`,
        `--window-size=${width},900`,
        `--blink-settings=preferredColorScheme=${schemes[scheme]}`,
        '--virtual-time-budget=4000',
        action,
        `file://${file}`,
      ],
      { timeout: timeoutMs, env: { HOME: dir }, cwd: dir },
    );
    return take(stdout, stderr, dir);
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

/** The page with the test's script: the page's own policy would refuse it, as any script but its own. */
function withSteps(page: string, steps: string): string {
  const opened = page.replace(/script-src '([^']+)'/, "script-src '$1' 'nonce-steps'");
  return opened.replace('</body>', () => `<script nonce="steps">${steps}</script></body>`);
}
