import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { isAmbiguous } from './scalars.ts';

const words = (text: string): string[] => text.split(' ');

test.each(
  words(
    'y Y yes Yes YES n N no No NO on On ON off Off OFF = << 014 -014 08 0o14 0b11 0B11 1_000 1_0.5 0x_1F -0x1F 0X1F 1:30 12:34:56 1:30.5',
  ),
)('%s is ambiguous', (scalar) => {
  expect(isAmbiguous(scalar)).toBe(true);
});

test.each(
  words(
    'true FALSE null ~ yEs nO 0 7 -1 80 1.5 .5 1. 1e3 0x1F .inf 10.0.0.1 10.96.0.0/12 fd00::1 ::1 12ab 2018-02-12 2018-02-12T15:48:44Z a_b v1_2 web:80 _1 1:75 0xyz',
  ),
)('%s is not ambiguous', (scalar) => {
  expect(isAmbiguous(scalar)).toBe(false);
});

// The library reads 1.1 as yaml.org/type says; only dates, which JSON does not have, differ from what kubectl reads.
test.each(words('y yes no on off 014 0b11 1_000 0x_1F -0x1F 1:30 12:34:56 1:30.5 0o14'))(
  'the yaml library reads %s differently in 1.1 and 1.2',
  (scalar) => {
    expect(parse(scalar, { version: '1.1' })).not.toEqual(parse(scalar, { version: '1.2' }));
  },
);
test.each(words('true null 0 80 1.5 .5 10.0.0.1 fd00::1 12ab a_b 1:75'))(
  'the yaml library reads %s the same in 1.1 and 1.2',
  (scalar) => {
    expect(parse(scalar, { version: '1.1' })).toEqual(parse(scalar, { version: '1.2' }));
  },
);
