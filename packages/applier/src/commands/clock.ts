import { uptime } from 'node:os';

/** CLOCK_BOOTTIME in milliseconds: what Node calls the uptime of the machine. It goes on while the machine sleeps. */
export function bootMs(): number {
  return uptime() * 1000;
}
