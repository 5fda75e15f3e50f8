import { Counter, Gauge, type Registry } from 'prom-client';

/** Functions that add a metric to a registry, which prints them in the order in which they came. */
export function makersFor(registry: Registry) {
  const registers = [registry];
  return {
    gauge: <Label extends string = never>(name: string, help: string, ...labelNames: Label[]): Gauge<Label> =>
      new Gauge({ name, help, labelNames, registers }),
    counter: <Label extends string = never>(name: string, help: string, ...labelNames: Label[]): Counter<Label> =>
      new Counter({ name, help, labelNames, registers }),
    /** A gauge that is computed when it is asked for. */
    derived: (name: string, help: string, value: () => number): Gauge =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(value());
        },
      }),
  };
}
