import { buildWith } from './base.ts';
import { runProgram } from './run.ts';

/** `sluice` in the image of a node: it renders, and has no code of reviews and releases. */
await runProgram(buildWith({}));
