import { namesSecretFile } from '../secret-files.ts'
import { deny, type Rule } from './rule.ts'

/**
 * After a secret file was read, the run must not send its content anywhere: network commands are denied. If
 * commands have a network, every other command needs approval.
 */
export const secretEgress: Rule = {
  name: 'secret-egress',
  judge: ({ facts, policy, settings, judgement }) => {
    const shell = judgement()
    if (!shell) return undefined
    const mentions = shell.words.some((word) => namesSecretFile(word, policy.secretFiles))
    if (!facts.touched.secret && !mentions) return undefined
    const [network] = shell.network
    if (network) return deny(`a secret file was read, so network commands are denied: ${network.text}`)
    return settings.network_enabled
      ? { verdict: 'ask', reason: 'a secret file was read and commands have network access', matched: [] }
      : undefined
  },
}
