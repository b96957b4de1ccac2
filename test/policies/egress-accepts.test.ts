import { describe, expect, it } from 'vitest'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'

describe('the key accepts', () => {
  const withEntry = (entry: string) =>
    `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: a\nclasses:\n  agent: [${entry}]\n  command: []\n`
  const PLACE = 'ports: [443], mode: full, why: the tests need this host'

  it('is read as the presets write it', () => {
    const { classes } = loadEgressPolicy(withEntry(`{preset: npm, why: the tests need this host}`))
    const written = JSON.stringify(classes.agent[0])

    expect(loadEgressPolicy(withEntry(written)).classes.agent[0]).toEqual(classes.agent[0])
    expect(classes.agent[0]).toMatchObject({ accepts: 'registry' })
  })

  it('is git in the entries of git servers, and github in the entries of GitHub', () => {
    const git = (preset: string) =>
      loadEgressPolicy(
        withEntry(`{${preset}, mode: full, repositories: [team/app], why: the tests need this host}`),
      ).classes.agent.map(({ host, accepts }) => [host, accepts])

    expect(git('preset: git, host: gitlab.agentweaver-test.com')).toEqual([
      ['gitlab.agentweaver-test.com', 'git'],
    ])
    expect(git('preset: github')).toEqual([
      ['github.com', 'github'],
      ['api.github.com', 'github'],
    ])
  })

  it.each([
    [
      'for git at paths of something else',
      `{host: git.agentweaver-test.com, ${PLACE}, paths: [/a/info/refs, /api/**], accepts: git}`,
      '"git" needs paths that end with the names of git’s protocol',
    ],
    [
      'without a limit',
      `{host: npm.agentweaver-test.com, ${PLACE}, accepts: registry}`,
      'needs "paths" or "requests"',
    ],
    [
      'with HTTP',
      `{host: npm.agentweaver-test.com, ${PLACE}, paths: [/a], http: allow, accepts: registry}`,
      'cannot be combined with "http"',
    ],
    [
      'for GitHub at another host',
      `{host: git.agentweaver-test.com, ${PLACE}, paths: [/a], accepts: github}`,
      '"github" is only for github.com and api.github.com',
    ],
  ])('is refused %s', (_what, entry, message) => {
    expect(() => loadEgressPolicy(withEntry(entry))).toThrow(message)
  })
})
