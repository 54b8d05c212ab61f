import type { World } from './world.ts'

/** Perl that says its attempt is made, and stays for the oracle to look at. */
export const stays = 'open(T, ">", "$ENV{HOME}/tried"); close T; sleep 60'

/** Perl speaks to the kernel directly; the process stays, so that the oracle can look at it from outside. */
export const staying = (world: World, code: string) =>
  `perl -e '${code}; ${stays}' ${world.mark} & settled $!`
