/** Whether this runs in the emulated guest of `vm`, which is some twenty times slower than its machine. */
export const isInGuest = process.env['SLUICE_GUEST'] === '1';
