import { expect, it } from 'vitest'
import { variables } from '../../charts-src/checks/variables.ts'
import { anEnvironment, aTree, ENVIRONMENTS, objectIn } from './fixture.ts'

const NAMED = {
  AGENTWEAVER_SANDBOXES: 'AGENTWEAVER_SANDBOXES',
  AGENTWEAVER_HOST: 'AGENTWEAVER_HOST',
  AGENTWEAVER_STATE_DIR: 'AGENTWEAVER_STATE_DIR',
  DATABASE_URL: 'DATABASE_URL',
  AGENTWEAVER_KEY_VAULT: 'AGENTWEAVER_KEYS_DIR or AGENTWEAVER_KEY_VAULT',
}

it.each(Object.entries(NAMED))(
  'an API without %s, with the default for a laptop, is reported',
  (key, named) => {
    const tree = aTree(anEnvironment('dev'))
    const [api] = objectIn(tree, 'Deployment')['spec'].template.spec.containers
    api.env = api.env.filter(({ name }: { name: string }) => name !== key)

    const messages = variables(tree).map(({ message }) => message)

    expect(messages).toContainEqual(expect.stringContaining(`api: ${named} is required in a pod`))
  },
)

it.each(ENVIRONMENTS)('%s gives its API every one of them', (name) => {
  expect(variables(aTree(anEnvironment(name)))).toEqual([])
})
