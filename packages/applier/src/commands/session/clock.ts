import { uptime } from 'node:os';

/** CLOCK_BOOTTIME in milliseconds, which Node calls the uptime of the machine. It includes suspended time. */
export function bootMs(): number {
  return uptime() * 1000;
}
