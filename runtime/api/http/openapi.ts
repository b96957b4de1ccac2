import { STATUS_CODES } from 'node:http'
import swagger, { type SwaggerTransform } from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod'
import * as z from 'zod'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { namedSchemas } from './named-schemas.ts'
import { useOneNameEach } from './schema-names.ts'
import { DESCRIPTIONS } from './schemas.ts'

/** Version of the HTTP interface, independent of the program's version. */
const INTERFACE_VERSION = '0.1.0'

const TAGS = [
  { name: 'runs', description: 'Runs of agents, and their turns' },
  { name: 'events', description: 'Events of a run, as a stream and in pages' },
  { name: 'decisions', description: 'Approvals, denials and answers to questions' },
  { name: 'commands', description: 'Commands in the sandbox of a run' },
  { name: 'workspace', description: 'Upload and download of whole workspaces' },
  { name: 'results', description: 'Changes that a run made' },
  { name: 'sandboxes', description: 'Sandboxes without an agent' },
  { name: 'files', description: 'Files in the sandbox of a run' },
  { name: 'policy', description: 'Sandbox settings, and folders with their own settings' },
  { name: 'audit', description: 'Records of what agents and people did, and their verification' },
  { name: 'keys', description: 'API keys, their owners, roles and expiry' },
  { name: 'service', description: 'Health and metrics of the service; no API key needed' },
]

/** Generates the OpenAPI document from the schemas that validate requests and responses. */
export function registerOpenapi(app: FastifyInstance): void {
  const schemaRegistry = namedSchemas()
  const zodToJsonConfig = { override: describe }
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Agentweaver Sandbox',
        version: INTERFACE_VERSION,
        description: 'Runs AI agents, each in its own sandbox.',
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: '/', description: 'The service that serves this document' }],
      tags: TAGS,
      components: {
        securitySchemes: {
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key, or an access token of the issuer that the operator configured',
          },
        },
      },
    },
    transform: nameWildcard(createJsonSchemaTransform({ schemaRegistry, zodToJsonConfig })),
    transformObject: createJsonSchemaTransformObject({ schemaRegistry, zodToJsonConfig }),
  })
}

type Override = NonNullable<z.core.ToJSONSchemaParams['override']>

/** Adjusts the JSON Schema that zod generates. */
const describe: Override = ({ zodSchema, jsonSchema }) => {
  const description = DESCRIPTIONS.get(zodSchema)
  if (description) {
    for (const key of Object.keys(jsonSchema)) delete jsonSchema[key]
    Object.assign(jsonSchema, description)
  }
  const { def } = zodSchema._zod
  // Zod omits the default of a schema that transforms its input.
  if (def.type === 'default') jsonSchema.default ??= JSON.parse(JSON.stringify(def.defaultValue))
  // A later release may add fields to a response. Strict objects set `additionalProperties: false` themselves.
  if (def.type === 'object' && !def.catchall) delete jsonSchema.additionalProperties
  // `format` is enough; zod also adds a pattern of 300 characters.
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern
  // The bounds of safe integers are no real limits of the value.
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) {
    delete jsonSchema.maximum
    jsonSchema.format = 'int64'
  }
  Object.assign(jsonSchema, z.globalRegistry.get(zodSchema))
}

/** The router names the wildcard `*`, but OpenAPI needs a parameter name. */
function nameWildcard(transform: SwaggerTransform): SwaggerTransform {
  return (document) => {
    const { schema, url } = transform(document)
    if (!url.endsWith('/*')) return { schema, url }
    const params = JSON.parse(JSON.stringify(schema.params).replaceAll('"*"', '"path"'))
    return { schema: { ...schema, params }, url: url.replace('*', ':path') }
  }
}

/** The document is built once and served as a string, because it cannot change. */
export function serveOpenapi(app: FastifyInstance): void {
  let text: string | undefined
  app.get(API_ROUTES.openapi, { schema: { hide: true } }, async (_request, reply) => {
    text ??= JSON.stringify(useOneNameEach(describeResponses(app.swagger() as Document)))
    return reply.type('application/json').send(text)
  })
}

type Operation = { readonly responses?: Readonly<Record<string, { description: string }>> }
type Document = {
  readonly components?: object
  readonly paths?: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

/** Placeholder of the swagger plugin for a response without a description. */
const PLACEHOLDER = 'Default Response'

function describeResponses(document: Document): Document {
  const operations = Object.values(document.paths ?? {}).flatMap((path) => Object.values(path))
  const responses = operations.flatMap((operation) => Object.entries(operation.responses ?? {}))
  for (const [status, response] of responses) {
    if (response.description === PLACEHOLDER) response.description = STATUS_CODES[status] ?? ''
  }
  return document
}
