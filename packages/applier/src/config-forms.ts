import { resolve } from 'node:path';
import { parseAddressAndPort, parseCidr } from '@sluice/netfilter';
import * as v from 'valibot';

/** The forms of values in `sluiced.yaml`, as schemas. Each message says what a value is not. */

/** A time in seconds, with fractions. */
export const seconds = v.pipe(v.number(), v.minValue(0.05), v.maxValue(3600));
export const wholeNumber = (least: number, most: number) =>
  v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most));
/** A part of a whole, from 0 to 1. */
export const share = v.pipe(v.number(), v.minValue(0), v.maxValue(1));

/** Whole seconds, from 0. */
export const secondsUpTo = (most: number) => wholeNumber(0, most);
/** A network in CIDR notation, and not all addresses. */
export const network = v.pipe(
  v.string(),
  v.check((text) => (parseCidr(text)?.prefix ?? 0) > 0, 'not a valid network in CIDR notation'),
);
/** An absolute path, normalised: other paths are made by appending to it. */
export const absolutePath = v.pipe(
  v.string(),
  v.regex(/^\/[^\0]*$/, 'not an absolute path'),
  v.transform((path) => resolve(path)),
);
/** @param least 0 where the kernel may choose the port */
export const hostPort = (least: 0 | 1) =>
  v.pipe(
    v.string(),
    v.check((text) => {
      const port = Number(/^(?:\[[0-9a-f:]+\]|[0-9.]+):([0-9]{1,5})$/.exec(text)?.[1]);
      return port >= least && port <= 65_535;
    }, `not of the form address:port (IPv6 in brackets), with a port from ${least} to 65535`),
  );
/** ADDRESS or ADDRESS:PORT of a frontend. */
export const vipName = v.pipe(
  v.string(),
  v.check((text) => parseAddressAndPort(text) !== undefined, 'not ADDRESS or ADDRESS:PORT in canonical spelling'),
);
/** What a probe asks for. */
export const httpUrl = v.pipe(
  v.string(),
  v.check(
    (text) => /^https?:\/\/[^\s]+$/.test(text) && URL.canParse(text) && new URL(text).port !== '0',
    'not a valid http URL, or its port is not from 1 to 65535',
  ),
);
/** A DNS subdomain, such as the name of a node. */
export const subdomain = v.pipe(
  v.string(),
  v.maxLength(253),
  v.regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/, 'not a valid DNS subdomain'),
);

/** RFC 1035, section 2.3.4: labels of at most 63 characters. Names of Services may begin with underscores (SRV). */
export const domainName = v.pipe(
  v.string(),
  v.maxLength(253),
  v.regex(
    /^([a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?)(\.[a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?)*\.?$/,
    'not a valid DNS name',
  ),
);

/** `shop/cart`: a namespace is a DNS label, and so is the name of a Service. */
export const serviceName = v.pipe(
  v.string(),
  v.regex(
    /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
    'not the name of a Service: NAMESPACE/NAME',
  ),
);
