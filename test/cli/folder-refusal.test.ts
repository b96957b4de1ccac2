import { expect, test } from 'vitest'
import { inFolder } from '../../cli/service/folder-refusal.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'

const hintOf = (wanted: { otherwise?: string }) =>
  inFolder(Promise.reject(new SandboxError('workspace_invalid', '/work/app is no folder.')), {
    ...{ connection: { isOwn: false }, path: '/work/app' },
    ...wanted,
  }).catch(({ hint }: { hint?: string }) => hint)

test('explains that a service at a URL uses folders on its own machine, and names the alternative if there is one', async () => {
  const reason = 'A service at a URL uses folders on its own machine, not on yours.'

  expect(await hintOf({})).toBe(reason)
  expect(await hintOf({ otherwise: 'Use --upload.' })).toBe(`${reason} Use --upload.`)
})
