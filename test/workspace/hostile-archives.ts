import type { Member } from './archive-fixture.ts'

export const link = (name: string, linkname: string): Member => ({ name, type: 'symlink', linkname })
export const hardLink = (name: string, linkname: string): Member => ({ name, type: 'link', linkname })
export const file = (name: string, content = 'evil'): Member => ({ name, content })

/** The attempt, the archive's members, and the expected error code. */
export const HOSTILE_ARCHIVES: readonly [string, readonly Member[], string][] = [
  ['an absolute name', [file('/etc/cron.d/x')], 'path_absolute'],
  ['a name with ".." at the start', [file('../outside/secret.txt')], 'path_outside'],
  ['a name with ".." further on', [file('a/../../outside/secret.txt')], 'path_outside'],
  ['a name of a Windows device', [file('\\\\.\\C:')], 'path_device'],
  ['a name with a drive', [file('C:/x')], 'path_absolute'],
  ['a link to an absolute path', [link('l', '/etc')], 'path_outside'],
  ['a link that climbs out', [link('a/l', '../../outside')], 'path_outside'],
  [
    'a link with ".." behind another link',
    [link('a/up', '..'), link('e', 'a/up/../outside')],
    'path_outside',
  ],
  ['a file written through a link', [link('l', 'd'), file('d/x'), file('l/y')], 'symlink'],
  ['a folder created through a link', [link('l', 'd'), { name: 'l/y/', type: 'directory' }], 'symlink'],
  ['a folder in place of a link', [link('l', 'd'), { name: 'l/', type: 'directory' }], 'symlink'],
  ['a file in place of a link', [link('l', 'd'), file('l')], 'exists'],
  ['a link in place of a file', [file('f'), link('f', 'd')], 'exists'],
  ['a link in place of a folder', [{ name: 'd/', type: 'directory' }, link('d', 'e')], 'exists'],
  ['a file twice', [file('f', 'one'), file('./f', 'two')], 'exists'],
  ['a hard link to the outside', [hardLink('h', '../outside/secret.txt')], 'path_outside'],
  ['a hard link to an absolute path', [hardLink('h', '/etc/passwd')], 'path_absolute'],
  ['a hard link through a link', [link('l', 'd'), hardLink('h', 'l')], 'symlink'],
  ['a hard link to nothing', [hardLink('h', 'none')], 'not_found'],
  ['a device', [{ name: 'dev', type: 'character-device', devmajor: 1, devminor: 3 }], 'special_file'],
  ['a block device', [{ name: 'dev', type: 'block-device', devmajor: 8, devminor: 0 }], 'special_file'],
  ['a FIFO', [{ name: 'p', type: 'fifo' }], 'special_file'],
  ['the root as a file', [file('./')], 'denied'],
]
