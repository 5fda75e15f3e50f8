import { proxyFields } from './proxy-fields.ts';
import type { FieldRow } from './rows.ts';
import { serviceFields } from './service-fields.ts';
import { sliceFields } from './slice-fields.ts';

/** All fields of the input that mean something to packets. */
export const fieldRows: readonly FieldRow[] = [...serviceFields, ...sliceFields, ...proxyFields];
