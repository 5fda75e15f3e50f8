import { severityLabels } from '../../src/report/severity.ts';
import { shape } from '../element.ts';
import { type Band, type Block, type Box, columns } from './layout.ts';

/** Units of a character in the two fonts of boxes, as large as the style sheet has them. */
interface Widths {
  readonly text: number;
  readonly note: number;
}
const plainWidths: Widths = { text: 7.4, note: 6.6 };
/** Of the drawing of one Service, which is smaller than its units. */
const largeWidths: Widths = { text: 8.8, note: 7.3 };

/**
 * The shapes of a block: zones behind bands, bands behind boxes.
 * @param isLarge whether its texts are those of the drawing of one Service
 */
export function blockShapes(block: Block, name: string, isLarge = false): readonly Node[] {
  const zones = block.boxes.filter(({ column }) => column === 'zone');
  const boxes = block.boxes.filter(({ column }) => column !== 'zone');
  return [
    ...zones.map(zoneShape),
    ...block.bands.map((band) => bandShape(band)),
    ...boxes.map((box) => boxShape(box, name, isLarge ? largeWidths : plainWidths)),
  ];
}

/** A block without texts, for a drawing that is small. */
export function plainShapes({ boxes, bands }: Block): readonly Node[] {
  return [
    ...bands.filter(({ fate }) => fate !== 'same').map((band) => bandShape(band)),
    ...boxes.filter(({ column }) => column !== 'zone').map((box) => rectOf(box)),
  ];
}

function placeOf(column: Box['column']): { readonly x: number; readonly width: number } {
  return column === 'zone' ? { x: columns.node.x - 12, width: columns.node.width + 12 } : columns[column];
}

function rectOf({ column, top, height, fate, severity }: Box): SVGElement {
  const { x, width } = placeOf(column);
  return shape('rect', { class: `box ${column} ${fate} ${severity ?? ''}`, x, y: top, width, height, rx: 5 });
}

function bandShape({ from, tops: [left, right], height, fate }: Band): Node {
  const next = { frontend: 'service', service: 'endpoint', endpoint: 'node' } as const;
  const x1 = columns[from].x + columns[from].width;
  const x2 = columns[next[from]].x;
  const bend = (x1 + x2) / 2;
  const d = [
    `M${x1} ${left}C${bend} ${left} ${bend} ${right} ${x2} ${right}`,
    `V${right + height}`,
    `C${bend} ${right + height} ${bend} ${left + height} ${x1} ${left + height}Z`,
  ].join('');
  return shape('path', { class: `band ${fate}`, d });
}

function zoneShape(box: Box): Node {
  return shape(
    'g',
    {},
    rectOf(box),
    shape('text', { class: 'zone-name', x: columns.node.x, y: box.top + 15 }, box.text),
  );
}

const words = { same: '', added: ', comes', removed: ', leaves' } as const;

function boxShape(box: Box, name: string, widths: Widths): Node {
  const { column, top, height, text, note = '', fate, severity } = box;
  const { x, width } = placeOf(column);
  const middle = top + height / 2 + 4.2;
  const mark =
    severity === undefined
      ? []
      : [
          shape('use', {
            class: `shape ${severity}`,
            href: `#shape-${severity}`,
            x: x + 9,
            y: top + height / 2 - 7,
            width: 14,
            height: 14,
          }),
        ];
  const indent = severity === undefined ? 9 : 30;
  const room = Math.floor((width - indent - 16 - note.length * widths.note) / widths.text);
  const says = severity === undefined ? '' : `, ${severityLabels[severity]}`;
  return shape(
    'g',
    { class: `boxed ${fate}` },
    shape(
      'title',
      {},
      `${text}${note === '' ? '' : ` (${note})`}${words[fate]}${column === 'service' ? says : ` of ${name}`}`,
    ),
    rectOf(box),
    ...mark,
    shape('text', { x: x + indent, y: middle }, shortened(text, room)),
    ...(note === '' ? [] : [shape('text', { class: 'note', x: x + width - 8, y: middle, 'text-anchor': 'end' }, note)]),
  );
}

/** A text with its middle left out: names of one cluster differ at their ends. */
export function shortened(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const kept = Math.max(2, characters - 1);
  const head = Math.ceil(kept * 0.4);
  return `${text.slice(0, head)}…${text.slice(text.length - (kept - head))}`;
}
