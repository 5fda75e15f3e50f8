import type { JsonSchema } from '../../packages/bundle/src/json-schema.ts';
import { wavesSchema } from '../../packages/bundle/src/release/wave-specs.ts';
import { configSchema } from '../../packages/applier/src/config.ts';
import { sluiceSchema } from '../../packages/renderer/src/load/schema/sluice.ts';
import { commentsOf } from './config-pages.ts';

/** Schemas for editors, made of the tables that the readers use, in the form of SchemaStore. */

const site = 'https://sluice.dev/schema/v1alpha1';

/** A part of a schema of valibot, as far as JSON Schema can say the same. A check by a function has no counterpart there. */
interface Part {
  readonly kind: string;
  readonly type: string;
  readonly entries?: Readonly<Record<string, Part>>;
  readonly wrapped?: Part;
  readonly default?: unknown;
  readonly item?: Part;
  readonly rest?: Part;
  readonly options?: readonly unknown[];
  readonly literal?: unknown;
  readonly pipe?: readonly Part[];
  readonly requirement?: unknown;
}

function schemaOf(part: Part): JsonSchema {
  if (part.pipe) {
    const base = part.pipe.findLast(({ kind }) => kind === 'schema') as Part;
    const { pipe: _pipe, ...plain } = base === part.pipe[0] ? part : base;
    const schema = schemaOf(plain);
    return Object.assign(schema, ...part.pipe.map((one) => boundOf(one, schema))) as JsonSchema;
  }
  if (part.wrapped) {
    const isGroup = part.wrapped.type === 'strict_object' || part.default === undefined;
    return { ...schemaOf(part.wrapped), ...(isGroup ? {} : { default: part.default }) };
  }
  if (part.entries) {
    const entries = Object.entries(part.entries);
    const properties = Object.fromEntries(entries.map(([name, one]) => [name, schemaOf(one)]));
    const required = entries.filter(([, { type }]) => type !== 'optional').map(([name]) => name);
    return { type: 'object', additionalProperties: false, ...(required.length > 0 ? { required } : {}), properties };
  }
  if (part.type === 'union') return { anyOf: (part.options as readonly Part[]).map(schemaOf) };
  if (part.type === 'picklist') return { enum: part.options ?? [] };
  if (part.type === 'literal') return { const: part.literal };
  if (part.item) return { type: 'array', items: schemaOf(part.item) };
  if (part.rest) return { type: 'array', minItems: 1, items: schemaOf(part.rest) };
  return { type: part.type as 'string' };
}

/** What an action of a pipe demands. */
function boundOf({ type, requirement }: Part, schema: JsonSchema): JsonSchema {
  const what = schema.type === 'array' ? 'Items' : 'Length';
  if (type === 'regex') return { pattern: (requirement as RegExp).source };
  if (type === 'integer') return { type: 'integer' };
  const keyword = { min_value: 'minimum', max_value: 'maximum', min_length: `min${what}`, max_length: `max${what}` }[
    type
  ];
  return keyword === undefined ? {} : { [keyword]: requirement };
}

/** @param yaml `docs/sluiced.yaml`, whose comments describe the fields */
export function sluicedSchema(yaml: string): JsonSchema {
  const schema = schemaOf(configSchema);
  const comments = new Map(commentsOf(yaml).map(({ name, about }) => [name, about.replaceAll('\n', ' ')]));
  const properties = Object.entries(schema.properties ?? {}).map(([name, one]): [string, JsonSchema] => {
    const description = comments.get(name) ?? { apiVersion: 'The version of this format.', kind: 'The kind.' }[name];
    return [name, description === undefined ? one : { description, ...one }];
  });
  const description = 'The config of sluiced on one node.';
  return { description, ...schema, properties: Object.fromEntries(properties) };
}

const print = (value: object): string => `${JSON.stringify(value, null, 2)}\n`;
const printSchema = (title: string, schema: JsonSchema): string =>
  print({
    $schema: 'http://json-schema.org/draft-07/schema#',
    $id: `${site}/${title.toLowerCase()}.schema.json`,
    title,
    ...schema,
  });

/** The files of docs/schema that this makes, by their names; `catalog.json` has the entries for SchemaStore. */
export function schemaFiles(yaml: string): Readonly<Record<string, string>> {
  const sluiced = sluicedSchema(yaml);
  const entry = (name: string, file: string, { description = '' }: { readonly description?: string }) => ({
    name,
    description,
    fileMatch: [file],
    url: `${site}/${name.toLowerCase()}.schema.json`,
  });
  return {
    'sluicedconfig.schema.json': printSchema('SluicedConfig', sluiced),
    'waves.schema.json': printSchema('Waves', wavesSchema),
    'catalog.json': print({
      $schema: 'https://json.schemastore.org/schema-catalog.json',
      version: 1,
      schemas: [
        entry('SluiceConfig', 'sluice.yaml', sluiceSchema),
        entry('SluicedConfig', 'sluiced.yaml', sluiced),
        entry('Waves', 'waves.yaml', wavesSchema),
      ],
    }),
  };
}
