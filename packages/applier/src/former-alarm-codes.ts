/** Renamed alarms, each with its code of the version before. Both are raised for one minor version. */
export const formerAlarmCodes = { DRIFT_LOOP: 'FIGHT' } as const;
