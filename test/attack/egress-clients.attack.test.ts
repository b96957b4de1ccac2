import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe } from 'vitest'
import { NODE_ROOT } from '../conformance/executor-cases/subject.ts'
import { clientSuite } from '../egress/client-suite.ts'
import { INSTALLED_CLIENTS } from '../egress/client-table.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'

const NODE_CLIENTS = ['pnpm@10.24.0', 'yarn@1.22.22', 'deno@2.9.6']
const PYTHON_CLIENTS = ['uv==0.9.13', 'requests==2.32.5', 'httpx==0.28.1']

const MAVEN_CLIENT = 'org.apache.maven:apache-maven:3.9.16:tar.gz:bin'

const tools = realpathSync(mkdtempSync(join(tmpdir(), 'aw-egress-tools-')))
const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent']
execFileSync('npm', ['install', '--prefix', join(tools, 'js'), ...quiet, ...NODE_CLIENTS])
const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--root-user-action=ignore']
execFileSync('/usr/bin/python3', [...pip, '--target', join(tools, 'py'), ...PYTHON_CLIENTS])
installMaven()
afterAll(() => rmSync(tools, { recursive: true, force: true }))

describe.each(ISOLATING_BACKENDS)('installed programs in $name, through the proxy', (backend) =>
  clientSuite(backend, { clients: INSTALLED_CLIENTS, toolRoots: [NODE_ROOT, tools], tools }),
)

/** Maven from its own repository, by a Maven of the machine. Without one, its test is skipped. */
function installMaven(): void {
  const folder = join(tools, 'maven')
  const copy = ['dependency:copy', `-Dartifact=${MAVEN_CLIENT}`, `-DoutputDirectory=${folder}`]
  if (spawnSync('mvn', ['-q', '-B', ...copy], { cwd: tools, stdio: 'inherit' }).error) return
  execFileSync('tar', ['xzf', join(folder, 'apache-maven-3.9.16-bin.tar.gz'), '-C', folder])
}
