import { describe, expect, it } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { CONTROL_TOOL_NAMES, TOOL_NAMES } from '../../contracts/tools.ts'
import {
  loadAgentPolicy,
  policyVersion,
  readAgentPolicy,
  readAgentPolicyTexts,
} from '../../policies/agent/load.ts'

const texts = readAgentPolicyTexts()
const withGovernance = (change: (text: string) => string) =>
  loadAgentPolicy({ ...texts, governance: change(texts.governance) })

describe('the policy of agents', () => {
  it('allows exactly the tools of the contracts', () => {
    const allowed = readAgentPolicy().rules.flatMap((rule) => (rule.action === 'Allow' ? rule.tools : []))

    expect(allowed.toSorted()).toEqual([...TOOL_NAMES, ...CONTROL_TOOL_NAMES].toSorted())
  })

  it.each(
    'shell bash view glob ls grep read write store_memory vote_memory update_todo task notebook semantic_search webfetch web_fetch websearch web_search'.split(
      ' ',
    ),
  )('denies the native tool %s by name', (tool) => {
    const rule = readAgentPolicy().rules.find(({ tools }) => (tools as readonly string[]).includes(tool))

    expect(rule?.action).toBe('Deny')
  })

  it('is frozen', () => {
    expect(Object.isFrozen(readAgentPolicy())).toBe(true)
  })
})

describe('loading', () => {
  it.each([
    [
      'another default action',
      (t: string) => t.replace('defaultAction: Deny', 'defaultAction: Allow'),
      /defaultAction/,
    ],
    ['no default action', (t: string) => t.replace('defaultAction: Deny\n', ''), /defaultAction/],
    [
      'another first rule',
      (t: string) => t.replace('deny-native-shell', 'deny-something'),
      /deny-native-shell/,
    ],
    ['an unknown key', (t: string) => `${t}\nextra: 1\n`, /line \d+: extra: is not a known key/],
    ['an allowed tool without a schema', (t: string) => t.replace('- read_file', '- read_mail'), /rules/],
    ['a tool named twice', (t: string) => t.replace('- view', '- bash'), /names bash a second time/],
    ['a duplicate key', (t: string) => `${t}\nname: again\n`, /is there twice/],
    ['broken YAML', (t: string) => `${t}\n  - [`, /governance\.yaml, line \d+/],
    ['nothing', () => '', /governance\.yaml/],
  ])('refuses %s', (_what, change, problem) => {
    expect(() => withGovernance(change)).toThrow(problem)
  })

  it('refuses a pattern that cannot act, with its line', () => {
    const approvals = texts.approvals.replace('- shred,wipe,srm', '- shred;wipe')

    expect(() => loadAgentPolicy({ ...texts, approvals })).toThrow(/approvals\.yaml, line \d+: .*shred;wipe/)
  })
})

describe('the version', () => {
  const settings = SandboxSettings.parse({})

  it('is the same for the same texts and settings', () => {
    expect(policyVersion(readAgentPolicy(), settings)).toBe(
      policyVersion(loadAgentPolicy(texts), { ...settings }),
    )
  })

  it('changes with a text and with a setting', () => {
    const version = policyVersion(readAgentPolicy(), settings)

    expect(
      policyVersion(
        withGovernance((text) => `${text}\n# note\n`),
        settings,
      ),
    ).not.toBe(version)
    expect(policyVersion(readAgentPolicy(), { ...settings, redact_pii: false })).not.toBe(version)
  })
})
