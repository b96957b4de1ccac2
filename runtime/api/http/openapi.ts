import swagger, { type SwaggerTransform } from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod'
import * as z from 'zod'
import {
  Approval,
  FileListing,
  Readiness,
  Run,
  StartCommand,
  StartRun,
  Turn,
} from '../../../contracts/api.ts'
import { AuditEntry, AuditVerification } from '../../../contracts/audit.ts'
import { Problem } from '../../../contracts/errors.ts'
import { RunEnvelope } from '../../../contracts/events.ts'
import { SandboxSettings, SandboxSettingsPatch } from '../../../contracts/policy.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'

/** The version of this interface, not of the program. */
const INTERFACE_VERSION = '0.1.0'

/** Schemas with a name of their own in the document; all others are written where they are used. */
function namedSchemas() {
  const registry = z.registry<{ id: string }>()
  const named = {
    Approval,
    AuditEntry,
    AuditVerification,
    FileListing,
    Problem,
    Readiness,
    Run,
    RunEnvelope,
    SandboxSettings,
    SandboxSettingsPatch,
    StartCommand,
    StartRun,
    Turn,
  }
  for (const [id, schema] of Object.entries(named)) registry.add(schema, { id })
  return registry
}

/** Makes the OpenAPI document out of the schemas by which the routes check what comes and goes. */
export function registerOpenapi(app: FastifyInstance): void {
  const schemaRegistry = namedSchemas()
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Agentweaver Sandbox',
        version: INTERFACE_VERSION,
        description: 'Runs AI agents, each in a sandbox of its own.',
      },
      components: { securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } } },
    },
    transform: nameWildcard(createJsonSchemaTransform({ schemaRegistry })),
    transformObject: createJsonSchemaTransformObject({ schemaRegistry }),
  })
}

/** The rest of a path is `*` to the router; a document needs a name for it. */
function nameWildcard(transform: SwaggerTransform): SwaggerTransform {
  return (document) => {
    const { schema, url } = transform(document)
    if (!url.endsWith('/*')) return { schema, url }
    const params = JSON.parse(JSON.stringify(schema.params).replaceAll('"*"', '"path"'))
    return { schema: { ...schema, params }, url: url.replace('*', ':path') }
  }
}

/** Served as a string: the document does not change while the service runs. */
export function serveOpenapi(app: FastifyInstance): void {
  let document: string | undefined
  app.get(API_ROUTES.openapi, { schema: { hide: true } }, async (_request, reply) => {
    document ??= JSON.stringify(app.swagger())
    return reply.type('application/json').send(document)
  })
}
