import { deny, type Rule } from './rule.ts'

/**
 * Layer A: applies the rules of the policy file by tool name, in file order. A tool that no rule names is
 * denied.
 */
export const toolByName: Rule = {
  name: 'tool-by-name',
  judge: ({ request, facts, policy }) => {
    const rule = policy.rules.find(({ tools }) => (tools as readonly string[]).includes(request.tool))
    if (!rule) return deny(`the tool ${shown(request.tool)} is not known here`)
    if (rule.action === 'Deny') return deny(`${rule.name}: ${rule.reason}`)
    if (rule.phases && !rule.phases.includes(facts.phase)) {
      return deny(`${rule.name}: ${request.tool} is not allowed in the phase ${facts.phase}`)
    }
    return undefined
  },
}

const shown = (name: unknown) => JSON.stringify(String(name).slice(0, 128))
