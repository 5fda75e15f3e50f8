import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** Where a Chromium may be; without one the tests of the page are skipped, and say so. */
export const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
);

/** No window, no network of its own, nothing kept. The page is a file, and its own policy forbids it the rest. */
const flags = [
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

export interface Visit {
  /** The document when its script has run. */
  readonly dom: string;
  /** What the page's console said: refused scripts, errors. */
  readonly console: readonly string[];
}

/**
 * Opens a page in a browser that knows no network.
 * @param steps JavaScript to run when the page is ready; it is let in beside the page's own script by a policy of its own
 * @param width of the window; Chromium makes none narrower than 500
 */
export async function visit(page: string, steps = '', width = 1280): Promise<Visit> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-page-'));
  try {
    const file = join(dir, 'page.html');
    writeFileSync(file, steps === '' ? page : withSteps(page, steps));
    const { stdout, stderr } = await execa(
      chromium ?? 'chromium',
      [
        ...flags,
        `--user-data-dir=${dir}/profile`,
        `--window-size=${width},900`,
        '--virtual-time-budget=4000',
        '--dump-dom',
        `file://${file}`,
      ],
      { timeout: timeoutMs, env: { HOME: dir } },
    );
    const lines = stderr.split('\n').filter((line) => line.includes(':CONSOLE'));
    return { dom: stdout, console: lines };
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}

/** A person's part: the page's policy would refuse it, as it refuses every script that is not its own. */
function withSteps(page: string, steps: string): string {
  const open = page.replace(/script-src '([^']+)'/, "script-src '$1' 'nonce-steps'");
  return open.replace('</body>', () => `<script nonce="steps">${steps}</script></body>`);
}
