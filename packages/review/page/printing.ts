/** Lists and drawings are whole on paper: those of views that are made for printing, too. */
let printing = false;
const redraws: (() => void)[] = [];

for (const [event, isOnPaper] of [
  ['beforeprint', true],
  ['afterprint', false],
] as const) {
  globalThis.addEventListener?.(event, () => {
    printing = isOnPaper;
    for (const redraw of redraws) redraw();
  });
}

/** Whether the page is being put on paper. */
export const isPrinting = (): boolean => printing;

/** Calls `redraw` before and after the page is printed. */
export const onPrint = (redraw: () => void): void => void redraws.push(redraw);
