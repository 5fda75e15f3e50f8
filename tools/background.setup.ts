import { getPriority, setPriority } from 'node:os';

/** A set-up file of vitest, for unit tests. They compute while tests on a kernel wait, and leave a processor to these at once. */
if (getPriority() < 10) setPriority(10);
