import { buffer } from 'node:stream/consumers'
import { extract } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Executor } from '../../runtime/executors/executor.ts'
import { execute } from '../conformance/executor-cases/subject.ts'
import { anArchive, type Member } from '../workspace/archive-fixture.ts'
import { file, HOSTILE_ARCHIVES, link } from '../workspace/hostile-archives.ts'
import { hasFeature } from './helpers/features.ts'
import { useNamespace } from './helpers/namespace.ts'
import { createPodExecutor } from './helpers/pod-executor.ts'
import { type SandboxPod, startSandboxPod } from './helpers/sandbox-pod.ts'

const never = new AbortController().signal
const ISOLATION = {
  backend: 'kubernetes-sandbox-claim',
  isRealIsolation: true,
  enforcesEgress: true,
  reason: 'a pod',
} as const

describe.each(['runc', 'gvisor'])('the workspace of a sandbox pod under %s', (runtime) => {
  describe.skipIf(!hasFeature(runtime === 'runc' ? 'real node' : 'gvisor'))('as an archive', () => {
    const space = useNamespace(`tar-${runtime}`)
    let pod: SandboxPod
    let executor: Executor
    const run = (command: string) => execute(executor, command)
    const put = async (members: readonly Member[]) => {
      const archive = await anArchive(members)
      await pod.client.putWorkspace(chunksOf(archive), AbortSignal.timeout(20_000))
    }

    beforeAll(async () => {
      pod = await startSandboxPod(space, 'tar', runtime === 'runc' ? {} : { runtimeClassName: runtime })
      await pod.configure()
      executor = createPodExecutor(pod.client, ISOLATION)
    })
    afterAll(async () => {
      await executor?.close()
      await pod?.client.close()
    })

    it('is uploaded and downloaded with its modes, links and contents', async () => {
      const tool = { name: 'round/tool.sh', content: '#!/bin/sh\necho ran\n', mode: 0o755 }
      await put([tool, file('round/ä b.txt', 'words'), link('round/to', 'tool.sh')])

      const ran = await run(
        'round/to && cat "round/ä b.txt" && echo new > round/new && stat -c %u:%g round/new',
      )
      const out = await pod.client.getWorkspace(never)
      const members = await membersOf(await buffer(out as never))

      expect(ran).toMatchObject({ exitCode: 0, stdout: 'ran\nwords1000:1000\n' })
      expect(members.get('round/tool.sh')).toMatchObject({ text: tool.content, mode: 0o755 })
      expect(members.get('round/ä b.txt')).toMatchObject({ text: 'words' })
      expect(members.get('round/to')).toMatchObject({ linkname: 'tool.sh' })
      expect(members.get('round/new')).toMatchObject({ text: 'new\n' })
    })

    it('is trusted by git', async () => {
      const git =
        'git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git log --oneline'

      const outcome = await run(git)

      expect(outcome).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^[0-9a-f]{7,} one\n$/) })
    })

    it.each(HOSTILE_ARCHIVES)('is rejected with the name of the member for %s', async (_title, members) => {
      await run('find . -mindepth 1 -delete')

      const putting = put([file('innocent', 'fine'), ...members])

      await expect(putting).rejects.toMatchObject({ code: 'invalid_request' })
      await expect(putting).rejects.toThrow(/member "/)
      const after = await run(
        'cat innocent; ls -d /tmp/outside /outside /etc/cron.d 2>/dev/null; find . -type b -o -type c -o -type p',
      )
      expect(after.stdout).toBe('fine')
    })

    it('is rejected if a member claims more bytes than a workspace may have', async () => {
      const header = await anArchive([{ name: 'huge', content: 'x' }])
      header.write('77777777777', 124, 'latin1')
      let sum = 0
      header.fill(' ', 148, 156)
      for (const byte of header.subarray(0, 512)) sum += byte
      header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')

      const putting = pod.client.putWorkspace(chunksOf(header.subarray(0, 1024)), AbortSignal.timeout(20_000))

      await expect(putting).rejects.toMatchObject({ code: 'payload_too_large' })
    })

    it('fails with the name of a member that cannot be read', async () => {
      await run('find . -mindepth 1 -delete; echo x > locked; chmod 000 locked')

      const reading = pod.client.getWorkspace(never).then((out) => buffer(out as never))

      await expect(reading).rejects.toThrow()
      const control = await run('chmod 600 locked')
      expect(control.exitCode).toBe(0)
      const members = await membersOf(await buffer((await pod.client.getWorkspace(never)) as never))
      expect(members.has('locked')).toBe(true)
    })
  })
})

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536)
}

interface Found {
  readonly text: string
  readonly mode: number
  readonly linkname?: string | undefined
}

async function membersOf(archive: Buffer): Promise<Map<string, Found>> {
  const found = new Map<string, Found>()
  const reader = extract()
  reader.end(archive)
  for await (const entry of reader) {
    const { name, mode = 0, linkname } = entry.header
    const parts: Uint8Array[] = []
    for await (const part of entry) parts.push(part as Uint8Array)
    found.set(name.replace(/^\.\//, ''), {
      text: Buffer.concat(parts).toString(),
      mode: mode & 0o777,
      linkname: linkname ?? undefined,
    })
  }
  return found
}
