#!/bin/sh
# In the machine, as a service of systemd or as the first process: runs the script, tells how it ended, switches off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8

if [ $$ = 1 ]; then
  mount -t proc proc /proc
  mount -t sysfs sys /sys
  mount -t devtmpfs dev /dev
  mkdir -p /dev/pts /dev/shm
  mount -t devpts pts /dev/pts
  for folder in /dev/shm /run /tmp; do mount -t tmpfs tmpfs "$folder"; done
  chmod 1777 /tmp /dev/shm
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  ip link set lo up
  modprobe fuse
fi 2>/dev/null

case $(uname -m) in
  aarch64) port=/dev/ttyS0 ;;
  *) port=/dev/ttyS1 ;;
esac
exec </dev/null >"$port" 2>&1
mount /dev/vdb /orangery
sh /orangery/lab-script
echo "lab: ended with $?"
sleep 1
# Whatever hangs: some of what is tried here breaks the kernel.
sync -f /
echo 1 >/proc/sys/kernel/sysrq
echo o >/proc/sysrq-trigger
sleep 60
