import type { World } from './world.ts'

/** Perl that says its attempt is made, and stays for the oracle to look at. */
export const stays = 'open(T, ">", "$ENV{HOME}/tried"); close T; sleep 60'

export const isThere = async (world: World) => (await world.processes()).length > 0

/** Whether a program of the probe, or its shell, was refused something: what it was to do it has tried. */
export const hasComplained = async (world: World, program = '') =>
  (await world.said()).split('\n').some((line) => line !== '' && line.startsWith(program))

/** Perl speaks to the kernel directly; the process stays, so that the oracle can look at it from outside. */
export const staying = (world: World, code: string) =>
  `perl -e '${code}; ${stays}' ${world.mark} & settled $!`
