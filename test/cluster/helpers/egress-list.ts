import { parse, stringify } from 'yaml'
import { readEgressPolicyText } from '../../../policies/agent/egress/load.ts'
import { APP_HOST, GIT_PLACE, GIT_REPOSITORY, NPM_HOST } from './git-outside.ts'

/** The list of this repository, one private repository, and a registry. */
export function egressWithGit(): string {
  const policy = parse(readEgressPolicyText())
  const place = { ports: [GIT_PLACE.port], addresses: [GIT_PLACE.address] }
  const entries = [
    {
      ...{ preset: 'git', host: GIT_PLACE.host, ...place, mode: 'full', repositories: [GIT_REPOSITORY] },
      ...{ credential: 'git', why: 'the private repository of the test' },
    },
    {
      ...{ preset: 'git', host: APP_HOST, ...place, mode: 'full', repositories: [GIT_REPOSITORY] },
      ...{ credential: 'app', why: 'the same repository, with a GitHub App' },
    },
    { preset: 'npm', host: NPM_HOST, ...place, why: 'the registry of the test' },
  ]
  const { address } = GIT_PLACE
  const github = { preset: 'github', mode: 'full', repositories: [GIT_REPOSITORY], addresses: [address] }
  const isOther = ({ host }: { host?: string }) => host !== 'github.com' && host !== 'api.github.com'
  policy.classes.agent = policy.classes.agent.filter(isOther)
  policy.classes.agent.push({ ...github, why: 'the repository of the team' })
  policy.classes.command.push(...entries)
  policy.classes.agent.push(...entries)
  return stringify(policy, { aliasDuplicateObjects: false })
}
