// Hyperkube is every real Kubernetes program that the lab runs, in one binary: the API server, controller
// manager, scheduler, kube-proxy, kubelet, kubectl, etcd and metrics-server share most of their code, so
// one link is a quarter of the size and of the build time of eight.
//
// The program is chosen by the name it is called with (argv[0]) or else by the first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	metricsserver "sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	// The kubelet installs the signal handler itself; installing it twice panics.
	"kubelet":        func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":        func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() },
	"metrics-server": func() *cobra.Command { return metricsserver.NewMetricsServerCommand(genericapiserver.SetupSignalHandler()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && name != "etcd" && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command := programs[name]
	if command == nil {
		known := []string{"etcd"}
		for k := range programs {
			known = append(known, k)
		}
		sort.Strings(known)
		fmt.Fprintf(os.Stderr, "hyperkube: no program %q; it has %s\n", name, strings.Join(known, ", "))
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
