/** A recording of the demo: asciicast v2, which asciinema plays, and a moving picture of it for pages. */

/** What was printed, and when. */
export interface Printed {
  readonly seconds: number;
  readonly text: string;
}

const columns = 112;
const rows = 30;
/** A reader waits no longer than this for the next line. */
const waitMaxSeconds = 2.5;
/** How long the end stays before the picture begins again. */
const restSeconds = 8;

/** @returns lines of JSON: https://docs.asciinema.org/manual/asciicast/v2/ */
export function castOf(printed: readonly Printed[]): string {
  const header = { version: 2, width: columns, height: rows, idle_time_limit: waitMaxSeconds, title: './dev demo' };
  const events = printed.map(({ seconds, text }) => [
    Math.round(seconds * 1000) / 1000,
    'o',
    text.replaceAll('\n', '\r\n'),
  ]);
  return [header, ...events].map((line) => `${JSON.stringify(line)}\n`).join('');
}

export function readCast(cast: string): readonly Printed[] {
  const [, ...events] = cast.trimEnd().split('\n');
  return events.map((line) => {
    const [seconds, , text] = JSON.parse(line) as [number, string, string];
    return { seconds, text: text.replaceAll('\r\n', '\n') };
  });
}

const charPx = 7.2;
const linePx = 17;
const padPx = 14;

/** A picture that plays a cast: a window whose lines come and scroll; still, at its end, for readers who ask for less motion. */
export function svgOf(cast: string): string {
  let now = 0;
  let before = 0;
  const lines: { readonly text: string; readonly kind: string }[] = [];
  const steps = readCast(cast).map(({ seconds, text }) => {
    now += Math.min(waitMaxSeconds, seconds - before);
    before = seconds;
    lines.push(...text.replace(/\n$/, '').split('\n').flatMap(wrapped));
    return { at: now, shown: lines.length };
  });
  const all = now + restSeconds;
  const frames = (from: (shown: number) => number): string =>
    steps
      .map(({ at, shown }) => `${((at / all) * 100).toFixed(2)}%{transform:translateY(${from(shown) * linePx}px)}`)
      .join('');
  const scrolled = (shown: number): number => -Math.max(0, shown - rows);
  const covered = (shown: number): number => Math.min(shown, rows);
  const [width, height] = [columns * charPx + 2 * padPx, rows * linePx + 2 * padPx];
  const texts = lines.map(textAt).join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img">
<title>A run of ./dev demo</title>
<style>
text{font:12px ui-monospace,'DejaVu Sans Mono',monospace;fill:#d5dde5;white-space:pre}
.said{fill:#8fa3b5}.step{fill:#fff;font-weight:700}
.lines{transform:translateY(${scrolled(lines.length) * linePx}px);animation:lines ${all.toFixed(1)}s step-end infinite}
.cover{transform:translateY(${covered(lines.length) * linePx}px);animation:cover ${all.toFixed(1)}s step-end infinite}
@keyframes lines{${frames(scrolled)}}
@keyframes cover{${frames(covered)}}
@media (prefers-reduced-motion:reduce){.lines,.cover{animation:none}}
</style>
<rect width="${width}" height="${height}" rx="8" fill="#10161d"/>
<svg x="${padPx}" y="${padPx}" width="${width - 2 * padPx}" height="${rows * linePx}"><g class="lines">
${texts}</g>
<rect class="cover" width="100%" height="100%" fill="#10161d"/></svg>
</svg>
`;
}

function textAt({ text, kind }: { readonly text: string; readonly kind: string }, at: number): string {
  if (text === '') return '';
  const plain = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  const width = `textLength="${(text.length * charPx).toFixed(1)}" lengthAdjust="spacingAndGlyphs"`;
  return `<text y="${at * linePx + 13}" ${width}${kind}>${plain}</text>\n`;
}

/** As a terminal does it. */
function wrapped(line: string): readonly { readonly text: string; readonly kind: string }[] {
  const kind = /^(\d\.|#) /.test(line) ? ' class="step"' : /^ {3}\|/.test(line) ? ' class="said"' : '';
  return (line.match(new RegExp(`.{1,${columns}}`, 'gu')) ?? ['']).map((text) => ({ text, kind }));
}
