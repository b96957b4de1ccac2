import { lookUpTool } from './host.ts'

/** SIOCSIFFLAGS from linux/sockios.h with IFF_UP | IFF_LOOPBACK | IFF_RUNNING, in `struct ifreq`. */
const PERL = `socket(my $s, 2, 2, 0) or die $!; my $r = pack("a16 s x22", "lo", 0x49); ioctl($s, 0x8914, $r) or die $!`

/**
 * Returns a command that brings up the loopback interface of a new network namespace. util-linux has no program
 * for it, but a base system has one of these (perl is essential in Debian).
 */
export function loopbackCommand(): string | undefined {
  const [ip, ifconfig, perl] = ['ip', 'ifconfig', 'perl'].map(lookUpTool)
  if (ip) return `${ip} link set lo up`
  if (ifconfig) return `${ifconfig} lo up`
  return perl && `${perl} -e '${PERL}'`
}
