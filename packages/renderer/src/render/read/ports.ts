import type { Protocol } from '../model/model.ts';
import { report, numberIn, pathText, type FieldSpot, wordIn } from './fields.ts';

/** The protocols that Services have (`supportedServicePortProtocols`); the default is TCP. */
export function protocolIn(spot: FieldSpot): Protocol {
  return wordIn(spot, 'protocol', ['TCP', 'UDP', 'SCTP'], 'TCP');
}

/**
 * A port number.
 * @param least 1, or 0 where 0 means "none"
 * @returns undefined when it is absent or (with a problem) out of range
 */
export function portIn(spot: FieldSpot, key: string, least: 0 | 1): number | undefined {
  const value = numberIn(spot, key);
  if (value === undefined) return undefined;
  if (Number.isInteger(value) && value >= least && value <= 65_535) return value;
  report(spot, [key], {
    code: 'PORT_INVALID',
    message: `Cannot use ${value} as ${pathText(spot, [key])}: it is not a valid port (1–65535)`,
    hint: 'Write a whole number from 1 to 65535',
  });
  return undefined;
}
