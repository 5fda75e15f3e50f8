/** The part of a drawing that is seen: the upper left corner in units of the drawing, and pixels per unit. */
export interface Viewport {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}

/** Sizes in pixels of the window, in units of the drawing. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

const scaleMax = 3;
/** Smaller, a Service would be less than two pixels high. */
const scaleLeast = 0.06;
/** Smaller texts cannot be read: a drawing that is wider than a telephone starts at this scale. */
const scaleReadable = 0.8;
/** Around the drawing, in units. */
const margin = 20;

/** The drawing as wide as the window, from its top. */
export function start(box: Size, content: Size): Viewport {
  const scale = Math.min(1, Math.max(scaleReadable, box.width / (content.width + 2 * margin)));
  return clamp({ x: -margin, y: -margin, scale }, box, content);
}

/** The whole drawing, or as much of it as shows anything. */
export function fit(box: Size, content: Size): Viewport {
  const scale = Math.min(1, scaleMin(box, content));
  return clamp({ x: -margin, y: -margin, scale }, box, content);
}

const scaleMin = (box: Size, content: Size): number =>
  Math.max(scaleLeast, Math.min(box.width / (content.width + 2 * margin), box.height / (content.height + 2 * margin)));

/** Moves by pixels. */
export function pan({ x, y, scale }: Viewport, dx: number, dy: number, box: Size, content: Size): Viewport {
  return clamp({ x: x + dx / scale, y: y + dy / scale, scale }, box, content);
}

/** Zooms around a point of the window, which stays where it is. */
export function zoom(view: Viewport, factor: number, at: { x: number; y: number }, box: Size, content: Size): Viewport {
  const least = Math.min(1, scaleMin(box, content));
  const scale = Math.min(scaleMax, Math.max(least, view.scale * factor));
  const [x, y] = [view.x + at.x / view.scale - at.x / scale, view.y + at.y / view.scale - at.y / scale];
  return clamp({ x, y, scale }, box, content);
}

/** Keeps the drawing in the window; one that is smaller is centred across, and at the top. */
function clamp({ x, y, scale }: Viewport, box: Size, content: Size): Viewport {
  const [width, height] = [box.width / scale, box.height / scale];
  const within = (value: number, seen: number, whole: number): number =>
    Math.min(Math.max(value, -margin), Math.max(-margin, whole + margin - seen));
  const centred = width >= content.width + 2 * margin;
  return {
    x: centred ? (content.width - width) / 2 : within(x, width, content.width),
    y: within(y, height, content.height),
    scale,
  };
}
