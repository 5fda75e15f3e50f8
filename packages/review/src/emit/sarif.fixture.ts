import type { Json } from '@sluice/renderer/render/model/kube.ts';
import { checkSchema, printPath, type Schema } from '@sluice/renderer/load/schema/schema.ts';

// The part of sarif-schema-2.1.0.json (OASIS, errata 01) that a run of sluice uses. As there, no object takes a key that is not listed.

const text: Schema = { type: 'string', pattern: '\\S' };
const object = (properties: Schema['properties'], required: readonly string[]): Schema => ({
  type: 'object',
  properties: properties ?? {},
  required,
  additionalProperties: false,
});
const list = (items: Schema): Schema => ({ type: 'array', items });
const choice = (...values: readonly string[]): Schema => ({ type: 'string', enum: values });

const level = choice('none', 'note', 'warning', 'error');
const message = object({ text }, ['text']);
const descriptor = object(
  {
    id: text,
    shortDescription: message,
    fullDescription: message,
    defaultConfiguration: object({ enabled: { type: 'boolean' }, level }, []),
  },
  ['id'],
);
const location = object(
  {
    physicalLocation: object(
      {
        // A relative reference (RFC 3986, 4.2): no scheme, no root, no step up, nothing that is not encoded.
        artifactLocation: object(
          {
            uri: {
              type: 'string',
              pattern: "^(?!/|\\.\\.?/|[a-zA-Z][a-zA-Z0-9+.-]*:)(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+$",
            },
          },
          [],
        ),
        region: object({ startLine: { type: 'integer', minimum: 1 } }, []),
      },
      [],
    ),
  },
  [],
);
const result = object(
  {
    ruleId: text,
    ruleIndex: { type: 'integer', minimum: -1 },
    level,
    message,
    locations: list(location),
    partialFingerprints: { type: 'object', additionalProperties: text },
    suppressions: list(
      object(
        {
          kind: choice('inSource', 'external'),
          status: choice('accepted', 'underReview', 'rejected'),
          justification: text,
        },
        ['kind'],
      ),
    ),
  },
  ['message'],
);
const notification = object({ level, message }, ['message']);
const log = object(
  {
    $schema: text,
    version: { type: 'string', const: '2.1.0' },
    runs: list(
      object(
        {
          tool: object({ driver: object({ name: text, semanticVersion: text, rules: list(descriptor) }, ['name']) }, [
            'driver',
          ]),
          automationDetails: object({ id: text }, []),
          properties: { type: 'object' },
          columnKind: choice('utf16CodeUnits', 'unicodeCodePoints'),
          invocations: list(
            object({ executionSuccessful: { type: 'boolean' }, toolExecutionNotifications: list(notification) }, [
              'executionSuccessful',
            ]),
          ),
          results: list(result),
        },
        ['tool'],
      ),
    ),
  },
  ['version', 'runs'],
);

/** Where a document differs from SARIF 2.1.0; empty: nowhere. */
export const againstSarif = (value: Json): readonly string[] =>
  checkSchema(log, value, { nullIsUnset: false }).map(({ path, why }) => `${printPath(path)}: ${why}`);
