import * as z from 'zod'
import { RunPhase } from '../../../contracts/policy.ts'
import { MaxSentMiB, Port, Range, Why } from './fields.ts'
import { hostFault } from './host.ts'
import type { Method } from './requests.ts'

interface Requested {
  methods: z.infer<typeof Method>[]
  paths: string[]
}
type Requests = Requested[]

interface PresetHost {
  readonly host: string
  readonly ports: readonly number[]
  readonly requests: Requests
  readonly http?: 'allow'
  readonly allow?: 'encoded-slash'[]
}

const reading = (...paths: string[]): Requests => [{ methods: ['GET', 'HEAD'], paths }]

/** The `npm audit` of an installation sends the names and versions of its packages. */
const NPM: Requests = [
  ...reading('/**'),
  {
    methods: ['POST'],
    paths: ['/-/npm/v1/security/advisories/bulk', '/-/npm/v1/security/audits/quick'],
  },
]

/** What the clients of public package registries need: reading, and nothing that publishes. */
const PRESETS: Readonly<Record<'npm' | 'pypi' | 'crates' | 'go' | 'debian', readonly PresetHost[]>> = {
  // Scoped packages have an encoded slash in their path.
  npm: ['registry.npmjs.org', 'registry.yarnpkg.com'].map((host) => ({
    host,
    ports: [443],
    requests: NPM,
    allow: ['encoded-slash'],
  })),
  pypi: [
    { host: 'pypi.org', ports: [443], requests: reading('/simple/**', '/pypi/*/json', '/pypi/*/*/json') },
    { host: 'files.pythonhosted.org', ports: [443], requests: reading('/packages/**') },
  ],
  crates: [
    { host: 'index.crates.io', ports: [443], requests: reading('/**') },
    { host: 'static.crates.io', ports: [443], requests: reading('/crates/**') },
    { host: 'crates.io', ports: [443], requests: reading('/api/v1/crates/*/*/download') },
  ],
  go: [
    { host: 'proxy.golang.org', ports: [443], requests: reading('/**') },
    {
      host: 'sum.golang.org',
      ports: [443],
      requests: reading('/lookup/**', '/tile/**', '/latest', '/supported'),
    },
    // The module proxy redirects large archives to this bucket.
    {
      host: 'storage.googleapis.com',
      ports: [443],
      requests: reading('/proxy-golang-org-prod/**'),
    },
  ],
  // apt verifies signatures and uses HTTP without TLS by default.
  debian: ['deb.debian.org', 'security.debian.org'].map((host) => ({
    host,
    ports: [80, 443],
    requests: reading('/debian/**', '/debian-security/**'),
    http: 'allow',
  })),
}

export const PRESET_NAMES = Object.keys(PRESETS) as (keyof typeof PRESETS)[]

/** The destinations of a kind of package registry, as written in the file. */
export const PresetEntry = z.strictObject({
  preset: z.enum(PRESET_NAMES),
  /** A mirror that serves all paths of the preset. @default the public hosts */
  host: z
    .string()
    .superRefine((host, context) => {
      const fault = hostFault(host)
      if (fault !== undefined) context.addIssue({ code: 'custom', message: fault })
    })
    .optional(),
  /** The folder of the mirror in which these paths start. @default the root */
  prefix: z
    .string()
    .regex(
      /^(?:\/[A-Za-z0-9._~-]*[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$/,
      'must be a path such as /artifactory/api/npm/npm, without a slash at the end',
    )
    .max(256)
    .optional(),
  ports: z.array(Port).min(1).max(8).optional(),
  phases: z.array(RunPhase).min(1).optional(),
  addresses: z.array(Range).min(1).max(16).optional(),
  maxSentMiB: MaxSentMiB.optional(),
  why: Why,
})
export type PresetEntry = z.infer<typeof PresetEntry>

/** The destinations for which a preset stands. */
export function expandPreset({ preset, host, prefix = '', ports, ...rest }: PresetEntry) {
  const own = PRESETS[preset]
  const hosts = host === undefined ? own : [{ ...(own[0] as PresetHost), host, requests: distinct(own) }]
  return hosts.map((one) => ({
    mode: 'full' as const,
    ...one,
    ports: [...(ports ?? one.ports)],
    requests: one.requests.map(({ methods, paths }) => ({
      methods: [...methods],
      paths: paths.map((path) => `${prefix}${path}`),
    })),
    ...rest,
    // A credential is never sent without TLS.
    ...(one.http === undefined && { accepts: 'registry' as const }),
  }))
}

const distinct = (hosts: readonly PresetHost[]): Requests => [
  ...new Map(hosts.flatMap(({ requests }) => requests).map((one) => [JSON.stringify(one), one])).values(),
]
