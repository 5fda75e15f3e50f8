export * from './link/program.ts';
export * from './problem.ts';
export * from './rulefile.ts';
