import * as z from 'zod'
import { RunPhase } from '../../contracts/policy.ts'
import { CONTROL_TOOL_NAMES, TOOL_NAMES } from '../../contracts/tools.ts'
import { type CommandPattern, parseCommandPattern } from './command-pattern.ts'

const API_VERSION = 'agentweaver.io/v1'
const ToolList = z.array(z.string().regex(/^[a-z][a-z0-9_]*$/)).min(1)
const Name = z.string().regex(/^[a-z][a-z0-9-]*$/)
const OUR_TOOLS: readonly string[] = [...TOOL_NAMES, ...CONTROL_TOOL_NAMES]

/** One rule of layer A. Only our tools can be allowed, because only they have a schema to check arguments against. */
export const ToolRule = z.discriminatedUnion('action', [
  z.strictObject({
    name: Name,
    action: z.literal('Deny'),
    tools: ToolList,
    reason: z.string().min(1),
  }),
  z.strictObject({
    name: Name,
    action: z.literal('Allow'),
    tools: z.array(z.enum(OUR_TOOLS)).min(1),
    /** @default every phase */
    phases: z.array(RunPhase).min(1).optional(),
  }),
])
export type ToolRule = z.infer<typeof ToolRule>

/** `policies/agent/governance.yaml`. */
export const GovernanceFile = z
  .strictObject({
    apiVersion: z.literal(API_VERSION),
    kind: z.literal('AgentPolicy'),
    name: Name,
    defaultAction: z.literal('Deny', 'must be Deny: a tool that nobody named is refused'),
    rules: z.array(ToolRule).min(1),
    secretFiles: z.strictObject({
      match: z.array(z.string().min(1)).min(1),
      except: z.array(z.string().min(1)),
    }),
  })
  .superRefine((file, context) => {
    const first = file.rules[0]
    if (first?.name !== 'deny-native-shell' || first.action !== 'Deny') {
      context.addIssue({
        code: 'custom',
        path: ['rules', 0],
        message: 'must be the Deny rule deny-native-shell',
      })
    }
    const seen = new Set<string>()
    for (const [index, rule] of file.rules.entries()) {
      for (const tool of rule.tools) {
        if (seen.has(tool)) {
          context.addIssue({ code: 'custom', path: ['rules', index], message: `names ${tool} a second time` })
        }
        seen.add(tool)
      }
    }
  })
export type GovernanceFile = z.infer<typeof GovernanceFile>

/** A pattern as text, parsed into its matcher. */
const Pattern = z.string().transform((text, context) => {
  const parsed = parseCommandPattern(text)
  if (parsed.ok) return parsed.pattern
  context.addIssue({ code: 'custom', message: `pattern "${text}" ${parsed.reason}` })
  return z.NEVER
})

/** Patterns that share one reason. */
const PatternGroup = z
  .strictObject({
    id: Name,
    reason: z.string().min(1),
    /** Whether a word whose value is unknown before execution counts as a match for a required word. */
    seesHiddenWords: z.boolean().default(false),
    /** Words that exempt a command from every pattern of the group, such as `--dry-run`. */
    unless: z.array(z.string().min(1)).default([]),
    match: z.array(Pattern).min(1),
  })
  .transform(({ seesHiddenWords, unless, match, ...group }) => ({
    ...group,
    match: match.map(
      (pattern): CommandPattern => ({
        ...pattern,
        seesHiddenWords,
        stages: pattern.stages.map((stage) =>
          unless.length === 0
            ? stage
            : { ...stage, words: [...stage.words, { kind: 'without' as const, anyOf: unless }] },
        ),
      }),
    ),
  }))

/** `policies/agent/approvals.yaml`. */
export const ApprovalsFile = z.strictObject({
  apiVersion: z.literal(API_VERSION),
  kind: z.literal('CommandPatterns'),
  destructive: z.array(PatternGroup).min(1),
  network: z.array(Pattern).min(1),
  plainOutput: z.array(Pattern),
  filters: z.array(Pattern),
})
export type ApprovalsFile = z.infer<typeof ApprovalsFile>
