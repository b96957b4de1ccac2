import type { z } from 'zod'
import { AGENT_HOST_ENV_PREFIX, AgentHostEnv, REACH_KEYS } from '../../contracts/agent-host-env.ts'
import { API_ENV_PREFIX, ApiEnv } from '../../contracts/api-env.ts'
import { missingInPod, POD_VARIABLE } from '../../contracts/api-pod-env.ts'
import { AZURE_KEYS } from '../../contracts/azure-identity-env.ts'
import { DATABASE_SETUP_SHARED_KEYS, DatabaseSetupEnv } from '../../contracts/database-setup-env.ts'
import { EGRESS_PROXY_ENV_PREFIX, EgressProxyEnv } from '../../contracts/egress-proxy-env.ts'
import { CONTAINERS } from '../../contracts/names.ts'
import { POD_RUNNER_KEYS, PodRunnerEnv, RUNNER_ENV_PREFIX } from '../../contracts/runner-env.ts'
import type { Check, Finding } from './checked-tree.ts'
import { listAt, textAt } from './read-fields.ts'
import { containersOf, podsOf } from './tree-pods.ts'

interface Contract {
  readonly schema: z.ZodType
  readonly prefix: string
  /** Variable names of other ecosystems that the schema reads too. */
  readonly also: readonly string[]
  /** Variables that the process reads directly, without its schema. */
  readonly passes?: readonly string[]
  /** Variables that the process needs although its schema has a default. */
  readonly missing?: (env: Readonly<Record<string, string | undefined>>) => readonly string[]
  readonly open: string
}

const OPEN_SANDBOX = 'charts-src/constructs/sandbox-env.ts'

const EGRESS_PROXY: Contract = {
  schema: EgressProxyEnv,
  prefix: EGRESS_PROXY_ENV_PREFIX,
  also: AZURE_KEYS,
  // Node itself reads it.
  passes: ['NODE_EXTRA_CA_CERTS'],
  open: 'charts-src/constructs/egress-proxy-deployment.ts',
}

const CONTRACTS: Readonly<Record<string, Contract>> = {
  [CONTAINERS.agentHost]: {
    schema: AgentHostEnv,
    prefix: AGENT_HOST_ENV_PREFIX,
    also: [],
    passes: REACH_KEYS,
    open: OPEN_SANDBOX,
  },
  [CONTAINERS.toolbox]: {
    schema: PodRunnerEnv,
    prefix: RUNNER_ENV_PREFIX,
    also: POD_RUNNER_KEYS,
    open: OPEN_SANDBOX,
  },
  api: {
    schema: ApiEnv,
    prefix: API_ENV_PREFIX,
    also: ['DATABASE_URL', 'OPENAI_BASE_URL', 'OPENAI_API_KEY', 'COPILOT_GITHUB_TOKEN', ...AZURE_KEYS],
    // Node itself and the libraries of OpenTelemetry read them.
    passes: [
      'NODE_EXTRA_CA_CERTS',
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'OTEL_TRACES_SAMPLER',
      'OTEL_TRACES_SAMPLER_ARG',
    ],
    missing: (env) =>
      missingInPod({ ...env, [POD_VARIABLE]: 'set' }).map(({ key, message }) => `${key} ${message}`),
    open: 'charts-src/constructs/api-env.ts',
  },
  'egress-proxy': EGRESS_PROXY,
  'egress-credentials': EGRESS_PROXY,
  'database-setup': {
    schema: DatabaseSetupEnv,
    prefix: API_ENV_PREFIX,
    also: DATABASE_SETUP_SHARED_KEYS,
    open: 'charts-src/constructs/database-setup.ts',
  },
}

/** Sample values for fields that the kubelet substitutes. */
const FIELDS: Readonly<Record<string, string>> = { 'metadata.uid': '00000000-0000-4000-8000-000000000000' }

/** Each container must set exactly the variables that its process parses and requires. */
export const variables: Check = ({ objects }) =>
  podsOf(objects).flatMap(({ path, spec }) =>
    containersOf(spec).flatMap(({ name, value }): Finding[] => {
      const contract = CONTRACTS[name]
      if (!contract)
        return [
          {
            path,
            message: `nothing says what the container ${name} reads`,
            open: 'charts-src/checks/variables.ts',
          },
        ]
      return faultsOf(contract, value).map((fault) => ({
        path,
        message: `${name}: ${fault}`,
        open: contract.open,
      }))
    }),
  )

function faultsOf({ schema, prefix, also, passes = [], missing }: Contract, container: unknown): string[] {
  const entries = listAt(container, 'env').map(
    (entry) => [textAt(entry, 'name') ?? '', textOf(entry)] as const,
  )
  const keys = entries.map(([key]) => key)
  const isOwn = (key: string) => key.startsWith(prefix) || also.includes(key)
  const result = schema.safeParse(Object.fromEntries(entries.filter(([key]) => isOwn(key))))
  return [
    ...(missing?.(Object.fromEntries(entries)) ?? []),
    ...keys.filter((key, index) => keys.indexOf(key) !== index).map((key) => `${key} stands twice`),
    ...entries.filter(([, value]) => value === undefined).map(([key]) => `nothing says what ${key} would be`),
    ...keys.filter((key) => !isOwn(key) && !passes.includes(key)).map((key) => `nothing reads ${key}`),
    ...(result.success
      ? []
      : result.error.issues.map((issue) => `${issue.path.join('.')} ${issue.message}`.trim())),
  ]
}

function textOf(entry: unknown): string | undefined {
  return textAt(entry, 'value') ?? FIELDS[textAt(entry, 'valueFrom', 'fieldRef', 'fieldPath') ?? '']
}
