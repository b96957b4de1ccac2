import { execFileSync } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe } from 'vitest'
import { NODE_ROOT } from '../conformance/executor-cases/subject.ts'
import { BACKENDS, clientSuite } from '../egress/client-suite.ts'
import { INSTALLED_CLIENTS } from '../egress/client-table.ts'

const NODE_CLIENTS = ['pnpm@10.24.0', 'yarn@1.22.22']
const PYTHON_CLIENTS = ['uv==0.9.13', 'requests==2.32.5', 'httpx==0.28.1']

const tools = realpathSync(mkdtempSync(join(tmpdir(), 'aw-egress-tools-')))
const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent']
execFileSync('npm', ['install', '--prefix', join(tools, 'js'), ...quiet, ...NODE_CLIENTS])
const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--root-user-action=ignore']
execFileSync('/usr/bin/python3', [...pip, '--target', join(tools, 'py'), ...PYTHON_CLIENTS])
afterAll(() => rmSync(tools, { recursive: true, force: true }))

describe.each(BACKENDS)('installed programs in $name, through the proxy', (backend) =>
  clientSuite(backend, { clients: INSTALLED_CLIENTS, toolRoots: [NODE_ROOT, tools], tools }),
)
