import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { expect, test } from 'vitest';
import { listExamples, renderArguments } from '../tools/examples.ts';

const sluice = programPath('sluice');

/** These tests start programs, on a machine that may be busy. */
const startsProgramsMs = 30_000;

test.each(listExamples())(
  'examples/$name has the rendered files of its input',
  async (example) => {
    const { exitCode, all } = await execa(sluice, [...renderArguments(example), '--check'], {
      reject: false,
      all: true,
    });
    // The output shows the stale hunks; ./dev golden writes them.
    expect({ exitCode, all: exitCode === 0 ? '' : all }).toEqual({ exitCode: 0, all: '' });
  },
  startsProgramsMs,
);
