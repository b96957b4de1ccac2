import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findPulumi } from '../../../infra/up/find-pulumi.ts'
import { FOLDER, type Recorded, readRecording, recordingText } from '../../policies/stack/recording.ts'
import { copyFixture } from './project-copy.ts'
import { recordRequests } from './record-requests.ts'
import { givenForSlice } from './slice-ground.ts'
import { aWorkspace, type Workspace } from './workspace.ts'

/**
 * The engine's requests to a policy pack for the platform, for a slice, and for resources that neither creates but that
 * rules check; each for a new and for an existing stack. The tests of the rules read these recordings, so the
 * recordings must match the current requests.
 */
const isRecording = process.env['RECORD'] === 'true'
let cli = ''
let platform: Workspace
let others: Workspace
beforeAll(async () => {
  const found = await findPulumi(process.env)
  cli = 'version' in found ? found.version : ''
  platform = await aWorkspace()
  others = await aWorkspace(copyFixture('rules-project'))
})
afterAll(async () => {
  await platform[Symbol.asyncDispose]()
  await others[Symbol.asyncDispose]()
})

const without = ({ inputs, outputs, ...rest }: Recorded) => ({
  ...rest,
  inputs: Object.keys(inputs ?? {}),
  outputs: Object.keys(outputs ?? {}),
})

async function keep(name: string, space: Workspace, stack: string): Promise<void> {
  const resources = await recordRequests(space, ['preview', '--stack', stack])
  const command = `pulumi preview --stack ${stack} --policy-pack …`
  const recorded = new Date().toISOString().slice(0, 10)
  if (isRecording)
    writeFileSync(join(FOLDER, `${name}.json`), recordingText({ cli, recorded, command, resources }))
  const { resources: kept } = readRecording(name)
  expect(resources.map(without), `${name}.json is old: npm run test:pulumi -- --record`).toEqual(
    kept.map(without),
  )
  expect(resources).toEqual(kept)
}

async function raise(space: Workspace, stack: string): Promise<void> {
  const { status, text } = await space.up(stack)
  expect(status, text).toBe(0)
}

test.each(['prod', 'dev'])('the platform %s, new and there', async (stack) => {
  await platform.init(stack)

  await keep(`${stack}-new`, platform, stack)
  await raise(platform, stack)
  await keep(`${stack}-there`, platform, stack)
})

test('a slice on the platform, new and there', async () => {
  givenForSlice(platform)
  await platform.init('pr-example')

  await keep('slice-new', platform, 'pr-example')
  await raise(platform, 'pr-example')
  await keep('slice-there', platform, 'pr-example')
})

test('what the platform does not make, new and there', async () => {
  await others.init('prod', {})

  await keep('others-new', others, 'prod')
  await raise(others, 'prod')
  await keep('others-there', others, 'prod')
})
