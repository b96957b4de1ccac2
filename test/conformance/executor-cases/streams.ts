import { describe, expect, it } from 'vitest'
import { ExecRequest } from '../../../contracts/exec.ts'
import type { Subject } from './subject.ts'

export function streamCases(subject: Subject): void {
  describe('streams', () => {
    it('keeps stdout and stderr apart and each in order', async () => {
      const outcome = await subject.run('for i in 1 2 3; do echo out$i; echo err$i >&2; done')

      expect(outcome.stdout).toBe('out1\nout2\nout3\n')
      expect(outcome.stderr).toBe('err1\nerr2\nerr3\n')
      expect(outcome).toMatchObject({ stdoutBytes: 15, stderrBytes: 15, outputTruncated: false })
    })

    it('delivers output while the command is still running', async () => {
      const said: string[] = []
      const stop = new AbortController()

      const result = await subject.executor.run(
        ExecRequest.parse({ command: 'echo first; sleep 600', timeoutMs: 120_000 }),
        {
          signal: stop.signal,
          onChunk: (_stream, bytes) => {
            said.push(Buffer.from(bytes).toString())
            stop.abort()
          },
        },
      )

      expect(said).toEqual(['first\n'])
      expect(result.reason).toBe('cancelled')
    })

    it('slow down the command if the reader is slow', async () => {
      let isReading = false
      let overlapped = false
      let bytes = 0
      const command = 'head -c 1000000 /dev/zero'

      await subject.executor.run(ExecRequest.parse({ command }), {
        onChunk: async (_stream, chunk) => {
          overlapped ||= isReading
          isReading = true
          await new Promise((resolve) => setImmediate(resolve))
          isReading = false
          bytes += chunk.length
        },
      })

      expect(bytes).toBe(1_000_000)
      expect(overlapped).toBe(false)
    })

    it('rejects if its reader fails, and leaves nothing running', async () => {
      const run = subject.executor.run(
        ExecRequest.parse({ command: 'echo x; sleep 600', timeoutMs: 120_000 }),
        {
          onChunk: () => Promise.reject(new Error('the reader is gone')),
        },
      )

      await expect(run).rejects.toThrow('the reader is gone')
    })

    it('keeps output up to the limit, counts the rest, and lets the command finish', async () => {
      const outcome = await subject.run('head -c 300000 /dev/zero; echo done >&2; exit 5', {
        maxOutputBytes: 1000,
      })

      expect(outcome.stdout).toHaveLength(1000)
      expect(outcome).toMatchObject({ exitCode: 5, outputTruncated: true, stdoutBytes: 300_000 })
      expect(outcome.stderr).toBe('done\n')
    })

    it('limits each stream separately', async () => {
      const outcome = await subject.run('head -c 50 /dev/zero >&2; echo fits', { maxOutputBytes: 10 })

      expect(outcome.stdout).toBe('fits\n')
      expect(outcome).toMatchObject({ outputTruncated: true, stderrBytes: 50, stdoutBytes: 5 })
    })

    it('does not report truncation for output that ends exactly at the limit', async () => {
      const outcome = await subject.run('printf 0123456789', { maxOutputBytes: 10 })

      expect(outcome).toMatchObject({ stdout: '0123456789', outputTruncated: false })
    })

    it.skipIf(!subject.supports.rawOutput)('passes binary output unchanged', async () => {
      const bytes: number[] = []
      const command = "printf '\\377\\376\\000\\200\\303'"

      await subject.executor.run(ExecRequest.parse({ command }), {
        onChunk: (_stream, chunk) => {
          bytes.push(...chunk)
        },
      })

      expect(bytes).toEqual([0xff, 0xfe, 0x00, 0x80, 0xc3])
    })

    it.skipIf(subject.supports.rawOutput)('replaces invalid UTF-8, and nothing else', async () => {
      const outcome = await subject.run("printf 'a\\377b\\303\\244c'")

      expect(outcome.stdout).toBe('a\ufffdb\u00e4c')
    })

    it('passes a large input to the command', async () => {
      const stdin = new Uint8Array(8_000_000).fill(65)

      const outcome = await subject.run('wc -c', { stdin })

      expect(outcome.stdout.trim()).toBe('8000000')
    })

    it('ignores that a command does not read its input', async () => {
      const outcome = await subject.run('exit 4', { stdin: new Uint8Array(8_000_000) })

      expect(outcome.exitCode).toBe(4)
    })

    it('provides an empty input if none was sent', async () => {
      const outcome = await subject.run('wc -c')

      expect(outcome.stdout.trim()).toBe('0')
    })

    it('keeps its status channel out of the command and its streams', async () => {
      const listing = await subject.run('ls -l /proc/self/fd')
      const killed = await subject.run('kill -KILL $$')

      const links = [...listing.stdout.matchAll(/(\d+) -> (.*)/g)]
      // The folder that ls reads, and descriptors that the test runner inherited, which are replaced.
      const others = links.filter(
        ([, fd, target]) => Number(fd) > 2 && !/^(\/proc\/\d+\/fd|\/dev\/null)$/.test(target ?? ''),
      )
      expect(links.length).toBeGreaterThan(2)
      expect(others).toEqual([])
      expect(killed.stderr).toBe('')
    })
  })
}
