import type { SiteName } from './package-site.ts'

/** A program that installs or fetches something through the proxy. In commands, `URL` is the address of the site. */
export interface Client {
  readonly name: string
  readonly site: SiteName
  /** Succeeds where the program is installed. */
  readonly test: string
  /** Reads what the entry allows. */
  readonly reads: string
  readonly expected: string
  /** Tries what the entry does not allow. */
  readonly writes: string
  /** Whether it prints why, or only the status of the response. */
  readonly prints: 'the reason' | 'the status'
  readonly refusal: RegExp
  /** Requests of the second command that may reach the server. */
  readonly permitted: RegExp
}

const PYTHON = '/usr/bin/python3'
const NOTHING = /^$/

/** Clients that the tests run, if the machine has them. */
export const CLIENTS: readonly Client[] = [
  {
    name: 'npm',
    site: 'npm',
    test: 'npm --version',
    reads: `npm ci --silent && node -p "require('@scope/pkg-a')"`,
    expected: '42',
    writes:
      'cd node_modules/@scope/pkg-a && npm version --silent 2.0.0 && npm publish --userconfig /workspace/.npmrc',
    prints: 'the reason',
    refusal: /the method PUT is not allowed for this host/,
    permitted: /^GET npm /,
  },
  {
    name: 'pip',
    site: 'pypi',
    test: `${PYTHON} -m pip --version`,
    reads: `${PYTHON} -m pip install -q --disable-pip-version-check --no-cache-dir --target py --index-url URL/simple/ pkg-b && PYTHONPATH=py ${PYTHON} -c 'import pkg_b; print(pkg_b.ANSWER)'`,
    expected: '42',
    writes: `${PYTHON} -m pip download --disable-pip-version-check --no-cache-dir --retries 0 URL/private/pkg_b-1.0-py3-none-any.whl`,
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private\/pkg_b/,
    permitted: NOTHING,
  },
  {
    name: 'git',
    site: 'git',
    test: 'git --version',
    reads: 'git clone -q URL/repo.git && cat repo/README',
    expected: 'from git',
    writes: 'cd repo && git push -q origin HEAD:refs/heads/other',
    prints: 'the status',
    refusal: /The requested URL returned error: 403/,
    permitted: /^GET git \/repo\.git\/info\/refs$/,
  },
  {
    name: 'cargo (and curl to publish)',
    site: 'crates',
    test: 'cargo --version',
    reads: 'cd crate && cargo fetch -q && ls ~/.cargo/registry/src/*/',
    expected: 'pkg-d-1.0.0',
    writes: 'curl -sS -X PUT -d x URL/api/v1/crates/new',
    prints: 'the reason',
    refusal: /the method PUT is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'go',
    site: 'go',
    test: '/usr/local/go/bin/go version',
    reads:
      'cd module && GOTOOLCHAIN=local GOFLAGS=-mod=mod GOSUMDB=off GOPROXY=URL /usr/local/go/bin/go mod download -json go.example.com/pkg-c@v1.0.0 | grep -o \'"Version": "v1.0.0"\'',
    expected: '"Version": "v1.0.0"',
    writes:
      'cd module && GOTOOLCHAIN=local GOSUMDB=off GOPROXY=UNLISTED /usr/local/go/bin/go mod download go.example.com/pkg-d@v1.0.0',
    prints: 'the reason',
    refusal: /Connection to unlisted\.agentweaver-test\.com:\d+ refused/,
    permitted: NOTHING,
  },
  {
    name: 'apt',
    site: 'debian',
    test: 'apt-get --version',
    reads:
      'cd apt && export APT_CONFIG=/workspace/apt/apt.conf && apt-get -qq update && apt-get -qq download pkg-e && ls *.deb',
    expected: 'pkg-e_1.0_all.deb',
    writes: 'APT_CONFIG=/workspace/apt/apt.conf /usr/lib/apt/apt-helper download-file URL/private /tmp/x',
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private/,
    permitted: NOTHING,
  },
  {
    name: 'curl',
    site: 'pypi',
    test: 'curl --version',
    reads: 'curl -sS URL/simple/pkg-b/ | grep -q pkg_b && echo pkg_b',
    expected: 'pkg_b',
    writes: 'curl -sS -X POST -d x URL/simple/',
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'wget',
    site: 'pypi',
    test: 'wget --version',
    reads: 'wget -q -O - URL/simple/pkg-b/ | grep -q pkg_b && echo pkg_b',
    expected: 'pkg_b',
    writes: 'wget -nv --tries 1 --post-data x URL/simple/',
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'fetch of Node',
    site: 'pypi',
    test: 'node --version',
    reads: `node -e 'fetch("URL/simple/pkg-b/").then((r) => r.text()).then((text) => console.log(text.match(/pkg_b/)[0]))'`,
    expected: 'pkg_b',
    writes: `node -e 'fetch("URL/simple/", { method: "POST", body: "x" }).then((r) => console.log(r.status, r.statusText))'`,
    prints: 'the reason',
    refusal: /405 .*the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'urllib of Python',
    site: 'pypi',
    test: `${PYTHON} --version`,
    reads: `${PYTHON} -c 'import urllib.request; print("pkg_b" in urllib.request.urlopen("URL/simple/pkg-b/").read().decode())'`,
    expected: 'True',
    writes: `${PYTHON} -c 'import urllib.request; urllib.request.urlopen("URL/simple/", b"x")'`,
    prints: 'the reason',
    refusal: /the method POST is not allowed for this host/,
    permitted: NOTHING,
  },
  {
    name: 'Java',
    site: 'pypi',
    test: 'java --version',
    reads: 'java Get.java URL/simple/pkg-b/ 2>/dev/null',
    expected: '200',
    writes: 'java Get.java URL/private/',
    prints: 'the reason',
    refusal: /GET is not allowed for the path \/private/,
    permitted: NOTHING,
  },
]

/** Clients that were not tried. */
export const NOT_RUN: readonly string[] = [
  'pnpm',
  'yarn',
  'uv',
  'requests and httpx of Python',
  'Maven',
  'Gradle',
  'gh',
  'Deno',
]
