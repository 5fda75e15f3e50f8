import { compareText } from '@sluice/netfilter';
import { report, mappingIn, numberIn, pathText, type FieldSpot, textIn, wordIn } from './fields.ts';

/** A selector as one text, independent of the order of its labels, for comparison. */
export function readSelector(spec: FieldSpot): string {
  const selector = mappingIn(spec, 'selector');
  if (!selector) return '';
  const keys = Object.keys(selector.value).toSorted(compareText);
  return keys.map((key) => `${key}=${textIn(selector, key) ?? ''}`).join(',');
}

/** Three hours: `DefaultClientIPServiceAffinitySeconds`. */
const defaultAffinitySeconds = 10_800;
/** A day: `MaxClientIPServiceAffinitySeconds`. */
const affinitySecondsMax = 86_400;

/** The time-out of sessionAffinity ClientIP in seconds; undefined: no affinity. */
export function readAffinity(spec: FieldSpot): number | undefined {
  const affinity = wordIn(spec, 'sessionAffinity', ['None', 'ClientIP'], 'None');
  const config = mappingIn(spec, 'sessionAffinityConfig');
  if (affinity === 'None') {
    if (config) {
      report(spec, ['sessionAffinityConfig'], {
        code: 'FIELD_VALUE',
        message: 'Cannot use sessionAffinityConfig: sessionAffinity is None',
        hint: 'Set sessionAffinity to ClientIP, or remove sessionAffinityConfig',
      });
    }
    return undefined;
  }
  const clientIP = config && mappingIn(config, 'clientIP');
  const seconds = clientIP && numberIn(clientIP, 'timeoutSeconds');
  if (!clientIP || seconds === undefined) return defaultAffinitySeconds;
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= affinitySecondsMax) return seconds;
  report(clientIP, ['timeoutSeconds'], {
    code: 'FIELD_VALUE',
    message: `Cannot use ${seconds} as ${pathText(clientIP, ['timeoutSeconds'])}: it is not a valid time-out (1–${affinitySecondsMax} s)`,
    hint: `Write whole seconds from 1 to ${affinitySecondsMax}`,
  });
  return undefined;
}
