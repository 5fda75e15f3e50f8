import { isMap } from './checks.ts';

/** The keywords of JSON Schema (draft 7) that schemas of config files have. Maps have no other keys than those of `properties`, unless the schema says of which form. */
export interface JsonSchema {
  readonly description?: string;
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly items?: JsonSchema;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: false | JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
}

/** Whether a value is what a schema describes. */
export function matches(schema: JsonSchema, value: unknown): boolean {
  const { properties = {}, items = {}, required = [] } = schema;
  if (schema.anyOf) return schema.anyOf.some((one) => matches(one, value));
  if ('const' in schema) return value === schema.const;
  if (schema.enum) return schema.enum.includes(value);
  if (typeof value === 'string') {
    const fits = isWithin(value.length, schema.minLength, schema.maxLength);
    return schema.type === 'string' && fits && new RegExp(schema.pattern ?? '', 'u').test(value);
  }
  if (typeof value === 'number') {
    const fits = schema.type === 'number' || (schema.type === 'integer' && Number.isInteger(value));
    return fits && isWithin(value, schema.minimum, schema.maximum);
  }
  if (Array.isArray(value)) {
    const fits = schema.type === 'array' && isWithin(value.length, schema.minItems, schema.maxItems);
    return fits && value.every((item) => matches(items, item));
  }
  if (!isMap(value)) return typeof value === schema.type;
  const known = ([key, one]: [string, unknown]) => {
    const own = Object.hasOwn(properties, key) ? properties[key] : schema.additionalProperties;
    return own !== undefined && own !== false && matches(own, one);
  };
  return (
    schema.type === 'object' && required.every((key) => Object.hasOwn(value, key)) && Object.entries(value).every(known)
  );
}

const isWithin = (value: number, least = -Infinity, most = Infinity): boolean => value >= least && value <= most;
