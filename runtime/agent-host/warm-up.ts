import { createHash, randomBytes } from 'node:crypto'
import { createLocalJWKSet, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { ConfigureRequest, type ConfigureRequestInput, TICKET } from '../../contracts/configure.ts'
import { DECISION_LIMITS } from '../../contracts/limits.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { SandboxError } from '../kit/errors.ts'
import { silentLog } from '../kit/log.ts'
import { assertTicketCovers, verifyTicketWith } from './configure/ticket.ts'
import { DecisionTable } from './decisions/decision-table.ts'
import { Outbox } from './outbox.ts'
import type { RunSession, SessionDeps } from './session/run-session.ts'
import { encodeSse } from './sse.ts'
import type { RunnerLink } from './toolbox/runner-link.ts'
import { envelopeToJson, parseSendMessage, snapshotToJson } from './turn/a2a-wire.ts'

const NAME = 'warm-up'
const DECISION_TIMEOUT_MS = 5_000

type WarmUpParts = Pick<SessionDeps, 'policy' | 'shell' | 'stateDir'> & {
  readonly createRunSession: (request: ConfigureRequest, deps: SessionDeps) => Promise<RunSession>
}

/**
 * Runs the path from ticket to first tool call once, so that its code is loaded and compiled before a caller waits:
 * otherwise the first run takes about 50 ms longer. The warm-up has its own key and outbox, and no runner, credential or
 * log. Nothing of it is kept.
 */
export async function warmUp({ createRunSession, ...parts }: WarmUpParts): Promise<void> {
  const body = Buffer.from(JSON.stringify(configuration()))
  await takeTicket(body)
  const outbox = new Outbox({
    maxEvents: DECISION_LIMITS.outboxEvents,
    maxBytes: DECISION_LIMITS.outboxBytes,
  })
  const decisions = new DecisionTable({ timeoutMs: DECISION_TIMEOUT_MS })
  const session = await createRunSession(ConfigureRequest.parse(JSON.parse(body.toString('utf8'))), {
    ...parts,
    outbox,
    decisions,
    toolbox: NO_RUNNER,
    runtimeEnv: {},
    onSecret: () => undefined,
    log: silentLog,
  })
  decisions.decide([{ callId: `${NAME}.1`, outcome: 'release' }])
  await takeTurn(session, outbox)
  decisions.close()
  await session.close()
}

const configuration = (): ConfigureRequestInput => ({
  runId: NAME,
  generation: 1,
  userId: NAME,
  turnBearerToken: randomBytes(32).toString('base64url'),
  digestKey: randomBytes(32).toString('base64url'),
  credential: { kind: 'none' },
  agent: {
    kind: 'scripted',
    plan: {
      turns: [
        [
          { kind: 'say', text: 'This is a warm-up.' },
          { kind: 'tool', tool: 'report_intent', arguments: { intent: 'warm up' } },
        ],
      ],
    },
  },
  governance: { version: NAME, settings: SandboxSettings.parse({}) },
  workingDirectory: '/workspace',
})

/** Signs and verifies a ticket with a throw-away key. No real ticket is ever verified with that key. */
async function takeTicket(body: Uint8Array): Promise<void> {
  const { publicKey, privateKey } = await generateKeyPair(TICKET.algorithm, { extractable: true })
  const ticket = await new SignJWT({ body_sha256: createHash('sha256').update(body).digest('hex') })
    .setProtectedHeader({ alg: TICKET.algorithm, kid: NAME })
    .setAudience(NAME)
    .setSubject(NAME)
    .setIssuedAt()
    .setExpirationTime(`${TICKET.lifetimeSeconds}s`)
    .sign(privateKey)
  const jwks = { keys: [{ ...(await exportJWK(publicKey)), kid: NAME, alg: TICKET.algorithm }] }
  const check = { instanceId: NAME, now: () => new Date() }
  assertTicketCovers(await verifyTicketWith(createLocalJWKSet(jwks), ticket, check), body)
}

/** Runs one turn as A2A starts it, and encodes its events as the stream does. */
async function takeTurn({ turns }: RunSession, outbox: Outbox): Promise<void> {
  const message = { messageId: NAME, role: 'ROLE_USER', parts: [{ text: NAME }] }
  const turn = turns?.startOrFollow(parseSendMessage({ message }))
  if (turn === undefined) throw new SandboxError('internal', 'the warm-up has no agent')
  encodeSse({ data: JSON.stringify(snapshotToJson(turn, NAME)) })
  await turn.ended
  outbox.close()
  for await (const envelope of outbox.follow(0, new AbortController().signal)) {
    encodeSse({ id: String(envelope.sequence), event: envelope.event.type, data: JSON.stringify(envelope) })
    JSON.stringify(envelopeToJson(envelope, NAME))
  }
}

const absent = async (): Promise<never> => {
  throw new SandboxError('internal', 'the warm-up has no runner')
}

const noStream = (): never => {
  throw new SandboxError('internal', 'the warm-up has no runner')
}

const NO_RUNNER: RunnerLink = {
  role: 'per-command',
  isolation: { backend: 'direct', isRealIsolation: false, enforcesEgress: false, reason: NAME },
  pathEngine: 'walk',
  warnings: [],
  closed: new Promise(() => undefined),
  close: async () => undefined,
  open: async () => undefined,
  onUsage: () => undefined,
  exec: absent,
  freeze: absent,
  file: absent,
  tarIn: absent,
  tarOut: noStream,
  manifest: noStream,
  pack: noStream,
  giveEgress: async () => undefined,
}
