#!/bin/sh
# Runs a script with this checkout in a virtual machine, for hosts that cannot be had otherwise: other kernels, file
# systems that break the kernel, switches that hold for all of it. Without a network, and nothing it does stays.
#
#   lab.sh build FOLDER [ARCHITECTURE]            as root, once: makes the machine's disk and its kernels in FOLDER
#   lab.sh run FOLDER KERNEL SCRIPT [ARGUMENT…]   boots it, runs SCRIPT as root, prints what it prints, and ends with it
#
# Takes qemu-system-x86 or qemu-system-arm, e2fsprogs, and debootstrap to build. The processor is emulated, several times
# slower, since KVM is not everywhere; LAB_ACCEL=kvm where it is. LAB_SECONDS: after how many it is given up (600).
# Further kernels: Debian packages (linux-image-…, and Ubuntu's linux-modules-… with it) in FOLDER/packages before `build`.
# ARCHITECTURE: amd64 or arm64, this host's own where left out. For another one `build` takes qemu-user-static, and `run`
# npm's registry or cache.
# ARGUMENT is the kernel's: `init=/lab/main` boots without systemd. In the machine the checkout is /orangery, the ordinary
# user `dev`, whose systemd runs, and node and npm packages are the checkout's own where they fit: build it before
# (`npm run build`).
set -eu

usage() { sed -n '5,6s/^# *//p' "$0" >&2; exit 64; }
[ $# -ge 2 ] || usage
task=$1 lab=$2
here=$(CDPATH='' cd -P "$(dirname "$0")" && pwd -P)
mkdir -p "$lab"
case $(uname -m) in
  aarch64) own=arm64 ;;
  *) own=amd64 ;;
esac

build() {
  architecture=${1:-$own}
  echo "$architecture" >"$lab/architecture"
  root=$lab/root
  needed=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,udev,kmod,initramfs-tools,linux-image-$architecture
  tools=bubblewrap,fuse-overlayfs,fuse3,git,perl,python3,curl,iproute2,procps,sudo,strace,attr,apparmor
  filesystems=e2fsprogs,xfsprogs,btrfs-progs,nfs-kernel-server,nfs-common,bindfs
  if [ ! -e "$root" ]; then
    debootstrap --foreign --arch="$architecture" --variant=minbase --include="$needed,$tools,$filesystems" bookworm "$root"
    # bindfs asks for fuse, which fuse3 stands for and cannot be beside.
    sed -i -E 's/(^| )fuse( |$)/ /' "$root/debootstrap/base"
    # In two stages, for this to stand before the kernel's package makes its initrd, of thousands of modules otherwise.
    mkdir -p "$root/etc/initramfs-tools/conf.d"
    echo MODULES=list >"$root/etc/initramfs-tools/conf.d/lab"
    chroot "$root" /debootstrap/debootstrap --second-stage
  fi
  unpacked=$(mktemp -d)
  for package in "$lab"/packages/*.deb; do
    [ -e "$package" ] || continue
    dpkg-deb -x "$package" "$unpacked"
  done
  # /lib is a link in there: never over it.
  for folder in boot:boot lib:usr/lib usr/lib:usr/lib; do
    [ ! -d "$unpacked/${folder%:*}" ] || cp -a "$unpacked/${folder%:*}/." "$root/${folder#*:}/"
  done
  rm -rf "$unpacked"

  printf 'virtio_pci\nvirtio_blk\next4\n' >"$root/etc/initramfs-tools/modules"
  mkdir -p "$lab/kernels"
  for modules in "$root"/usr/lib/modules/*; do
    kernel=${modules##*/}
    chroot "$root" depmod "$kernel"
    chroot "$root" mkinitramfs -o "/boot/initrd-$kernel" "$kernel"
    mv "$root/boot/initrd-$kernel" "$lab/kernels/"
    cp "$root/boot/vmlinuz-$kernel" "$lab/kernels/"
  done

  grep -q '^dev:' "$root/etc/passwd" || chroot "$root" useradd -m -u 1000 -s /bin/bash dev
  mkdir -p "$root/lab" "$root/orangery" "$root/var/lib/systemd/linger"
  : >"$root/var/lib/systemd/linger/dev"
  install -m 755 "$here/main.sh" "$root/lab/main"
  printf '[Service]\nExecStart=/lab/main\n[Install]\nWantedBy=multi-user.target\n' >"$root/etc/systemd/system/lab.service"
  chroot "$root" systemctl enable lab.service
  for service in nfs-server rpcbind nfs-blkmap; do chroot "$root" systemctl disable "$service" || true; done
  printf '/dev/vda / ext4 rw 0 1\n' >"$root/etc/fstab"
  printf '127.0.0.1 localhost lab\n::1 localhost\n' >"$root/etc/hosts"
  echo lab >"$root/etc/hostname"
  : >"$root/etc/resolv.conf"
  disk "$root" "$lab/system.img" 5G
  echo 'kernels:'
  ls "$lab/kernels" | sed -n 's/^vmlinuz-/  /p'
}

# npm's packages for a processor that is not this host's, and node: `packages TREE CPU`.
packages() (
  cp "$checkout/package-lock.json" "$checkout/.npmrc" "$1/"
  cd "$1"
  npm ci --os=linux --cpu="$2" --omit=dev --prefer-offline --loglevel=error >&2
  node=$(sed -n 's/^ *"node": "\([0-9.]*\)".*/\1/p' package.json)
  packed=$(npm pack --silent --prefer-offline "node-linux-$2@$node")
  mkdir node_modules/node
  tar -xzf "$packed" --strip-components=1 -C node_modules/node
  rm "$packed"
)

# A disk that holds what the folder holds.
disk() {
  rm -f "$2"
  truncate -s "$3" "$2"
  mke2fs -q -F -t ext4 -d "$1" "$2"
}

run() {
  kernel=$1 script=$2
  shift 2
  checkout=$here/../..
  made=$(mktemp -d "$lab/run.XXXXXX")
  trap 'rm -rf "$made"' EXIT
  mkdir "$made/tree"
  for name in bin out resources scripts src test package.json; do cp -a "$checkout/$name" "$made/tree/"; done
  architecture=$(cat "$lab/architecture" 2>/dev/null || echo amd64)
  # The first port is the console's, the second the script's: /dev/ttyS1 and, as an arm64 machine has but one, /dev/ttyS0.
  case $architecture in
    amd64) cpu=x64 console=ttyS0 qemu='qemu-system-x86_64' port='-serial stdio' ;;
    arm64)
      cpu=arm64 console=ttyAMA0 qemu='qemu-system-aarch64 -M virt'
      port='-chardev stdio,id=said -device pci-serial,chardev=said'
      ;;
  esac
  if [ "$architecture" != "$own" ]; then
    packages "$made/tree" "$cpu"
  else
    cp -al "$(realpath "$checkout/node_modules")" "$made/tree/node_modules" 2>/dev/null ||
      cp -a "$(realpath "$checkout/node_modules")" "$made/tree/"
  fi
  cp "$script" "$made/tree/lab-script"
  disk "$made/tree" "$made/checkout.img" 4G
  rm -rf "$made/tree"
  # $qemu and $port are several words; -snapshot keeps nothing that is written.
  timeout "${LAB_SECONDS:-600}" $qemu -accel "${LAB_ACCEL:-tcg,thread=multi}" -cpu max -m 3G -smp 2 \
    -display none -monitor none -net none -no-reboot -snapshot \
    -kernel "$lab/kernels/vmlinuz-$kernel" -initrd "$lab/kernels/initrd-$kernel" \
    -append "root=/dev/vda rw console=$console quiet mitigations=off $*" \
    -drive "file=$lab/system.img,format=raw,if=virtio" -drive "file=$made/checkout.img,format=raw,if=virtio" \
    -serial "file:$lab/console" $port </dev/null | tee "$made/said"
  ended=$(tr -d '\r' <"$made/said" | sed -n 's/^lab: ended with //p' | tail -1)
  [ -n "$ended" ] || echo "lab: did not end by itself; the console is in $lab/console" >&2
  return "${ended:-70}"
}

case $task in
  build)
    shift 2
    build "$@"
    ;;
  run)
    [ $# -ge 4 ] || usage
    shift 2
    run "$@"
    ;;
  *) usage ;;
esac
