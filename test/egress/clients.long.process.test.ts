import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { NODE_ROOT } from '../conformance/executor-cases/subject.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'
import { clientSuite } from './client-suite.ts'
import { CLIENTS } from './client-table.ts'

const toolRoots = [NODE_ROOT, ...rustToolchain()]

describe.each(ISOLATING_BACKENDS)('real programs in $name, through the proxy', (backend) =>
  clientSuite(backend, {
    clients: CLIENTS,
    toolRoots,
    more: ({ run, runAlone, site }) => {
      it('shows the certificate of the proxy for a terminated host, and the certificate of the host for another', async () => {
        const issuer = (name: 'pypi' | 'spliced') =>
          run(`curl -sSv ${site.url(name)}/ -o /dev/null 2>&1 | grep issuer`).then(({ stdout }) =>
            stdout.trim(),
          )

        expect(await issuer('pypi')).toBe('*  issuer: CN=Agentweaver egress proxy')
        expect(await issuer('spliced')).toBe('*  issuer: CN=agentweaver-test-ca')
      })

      it('is trusted by programs that read no variable', async () => {
        const outcome = await run(
          `env -i /usr/bin/curl -sS -x http://127.0.0.1:3128 ${site.url('pypi')}/simple/pkg-b/`,
        )

        expect(outcome).toMatchObject({ exitCode: 0, stderr: '' })
      })

      it('fetches an SSH address of a known site over https, and says that SSH has no way out', async () => {
        const known = await run('git ls-remote git@github.com:owner/repo.git')
        const other = await run('git ls-remote git@git.example.com:owner/repo.git')

        expect(known.stderr).toContain('Connection to github.com:443 refused')
        expect(other.stderr).toContain('agentweaver: SSH has no way out of this sandbox')
      })

      it('is not trusted without network access', async () => {
        const outcome = await runAlone('env | grep -c -e CA_BUNDLE -e SSL_CERT; ls /agentweaver/egress')

        expect(outcome.stdout).toBe('0\n')
      })
    },
  }),
)

function rustToolchain(): string[] {
  try {
    return [realpathSync(join(homedir(), '.rustup/toolchains/stable-x86_64-unknown-linux-gnu'))]
  } catch {
    return []
  }
}
