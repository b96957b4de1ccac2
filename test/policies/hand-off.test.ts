import { expect, it } from 'vitest'
import { kindOfGitKey } from '../../policies/agent/git-keys.ts'
import { handOffKind } from '../../policies/agent/hand-off.ts'

it.each([
  ['.envrc', 'shell'],
  ['a/b/.vscode/tasks.json', 'editor'],
  ['.IDEA/workspace.xml', 'editor'],
  ['.devcontainer/devcontainer.json', 'container'],
  ['.husky/pre-commit', 'git hook'],
  ['.gitattributes', 'git hook'],
  ['packages/x/package.json', 'packages'],
  ['.npmrc', 'packages'],
  ['makefile', 'build'],
  ['tests/conftest.py', 'test or tool configuration'],
  ['vite.config.ts', 'test or tool configuration'],
  ['.github/workflows/ci.yml', 'continuous integration'],
  ['.agentweaver/settings.yml', 'settings of agents'],
])('%s is a hand-off file of the kind %s', (path, kind) => {
  expect(handOffKind(path)).toBe(kind)
})

it.each(['src/index.ts', 'README.md', 'docs/package.json.md', 'vscode/x', 'config.ts', 'github/x'])(
  '%s is not a hand-off path',
  (path) => expect(handOffKind(path)).toBeUndefined(),
)

it.each([
  ['include.path', 'files'],
  ['includeif.gitdir:/a.b/.path', 'files'],
  ['core.hookspath', 'folders'],
  ['filter.a.b.c.clean', 'commands'],
  ['alias.st', 'commands'],
  ['remote.origin.url', 'texts'],
  ['user.name', 'texts'],
  ['some.thing.new', undefined],
])('git’s %s names %s', (key, kind) => {
  expect(kindOfGitKey(key)).toBe(kind)
})
