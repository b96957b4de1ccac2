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

const NAME = 'rehearsal'
const DECISION_TIMEOUT_MS = 5_000

type RehearsalParts = Pick<SessionDeps, 'policy' | 'shell' | 'stateDir'> & {
  readonly createRunSession: (request: ConfigureRequest, deps: SessionDeps) => Promise<RunSession>
}

/**
 * Goes once through what a run needs from its ticket to its first words and calls: code that runs for the first time
 * takes some 50 ms more, and a caller would wait for them. Everything is its own, from a key that nothing else knows
 * to an outbox that nothing follows; it has no runner, no credential and no log, and nothing of it is kept.
 */
export async function rehearse({ createRunSession, ...parts }: RehearsalParts): Promise<void> {
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
  credential: { kind: 'none' },
  agent: {
    kind: 'scripted',
    plan: {
      turns: [
        [
          { kind: 'say', text: 'This is a rehearsal.' },
          { kind: 'tool', tool: 'report_intent', arguments: { intent: 'rehearse' } },
        ],
      ],
    },
  },
  governance: { version: NAME, settings: SandboxSettings.parse({}) },
  workingDirectory: '/workspace',
})

/** A ticket of a key of its own, which no real ticket is ever verified with. */
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

/** A turn as A2A starts it, and its events as the stream tells them. */
async function takeTurn({ turns }: RunSession, outbox: Outbox): Promise<void> {
  const message = { messageId: NAME, role: 'ROLE_USER', parts: [{ text: NAME }] }
  const { turnId, prompt } = parseSendMessage({ message })
  const turn = turns?.startOrFollow(turnId, prompt)
  if (turn === undefined) throw new SandboxError('internal', 'the rehearsal has no agent')
  encodeSse({ data: JSON.stringify(snapshotToJson(turn, NAME)) })
  await turn.ended
  outbox.close()
  for await (const envelope of outbox.follow(0, new AbortController().signal)) {
    encodeSse({ id: String(envelope.sequence), event: envelope.event.type, data: JSON.stringify(envelope) })
    JSON.stringify(envelopeToJson(envelope, NAME))
  }
}

const absent = async (): Promise<never> => {
  throw new SandboxError('internal', 'the rehearsal has no runner')
}

const NO_RUNNER: RunnerLink = {
  role: 'per-command',
  isolation: { backend: 'direct', isRealIsolation: false, enforcesEgress: false, reason: NAME },
  pathEngine: 'walk',
  warnings: [],
  closed: new Promise(() => undefined),
  close: async () => undefined,
  open: async () => undefined,
  exec: absent,
  file: absent,
  tarIn: absent,
  tarOut: () => {
    throw new SandboxError('internal', 'the rehearsal has no runner')
  },
}
